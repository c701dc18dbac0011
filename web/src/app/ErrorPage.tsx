/** Error boundary page: a bug, or a chunk that failed to load. */

import type { ErrorComponentProps } from "@tanstack/react-router";
import { CircleAlert } from "lucide-react";
import { useStrings } from "@/i18n/context";
import { Button } from "@/ui/Button";

export function ErrorPage({ error }: ErrorComponentProps) {
  const strings = useStrings();
  return (
    <div role="alert" className="m-auto flex max-w-96 flex-col items-center gap-2 p-6 text-center">
      <CircleAlert aria-hidden className="mb-2 size-6 text-error" />
      <h1 className="text-title font-semibold">{strings.crashed}</h1>
      <p className="mb-1 text-soft">{strings.crashedHint}</p>
      <code className="mb-3 font-mono text-small text-faint [overflow-wrap:anywhere]">
        {error instanceof Error ? error.message : String(error)}
      </code>
      <Button onClick={() => location.reload()}>{strings.reloadPage}</Button>
    </div>
  );
}
