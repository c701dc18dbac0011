/** Loading and error states. */

import { FileX } from "lucide-react";
import { useStrings } from "@/i18n/context";
import { Button } from "@/ui/Button";

export function LoadingState() {
  const strings = useStrings();
  return (
    <div role="status" aria-label={strings.loadingFile} className="flex animate-late flex-col gap-3 p-4">
      {["w-full", "w-11/12", "w-4/5", "w-2/5"].map((width) => (
        <div key={width} className={`h-5 animate-breathe rounded-box bg-tint ${width}`} />
      ))}
    </div>
  );
}

export function ErrorState({ text, onRetry }: { text: string; onRetry?: () => void }) {
  const strings = useStrings();
  return (
    <div className="m-auto flex max-w-80 flex-col items-center gap-3 p-6 text-center text-soft">
      <FileX aria-hidden className="size-6 text-faint" />
      <p>{text}</p>
      {onRetry && <Button onClick={onRetry}>{strings.tryAgain}</Button>}
    </div>
  );
}
