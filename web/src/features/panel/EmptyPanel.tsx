/** Tab of the panel that has nothing to show yet. */

import { usePreviewStrings } from "@/i18n/useResultStrings";
import { Button } from "@/ui/Button";
import { focusComposer } from "@/ui/dom/composerFocus";
import { EmptyState } from "@/ui/states";

export function EmptyPanel({ text }: { text: string }) {
  const strings = usePreviewStrings();
  return (
    <EmptyState text={text}>
      <Button onClick={focusComposer}>{strings.writeMessage}</Button>
    </EmptyState>
  );
}
