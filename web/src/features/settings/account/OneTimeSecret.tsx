/** Secret or link that the server shows only once. */

import { useAccountStrings } from "@/i18n/accounts";
import { CopyButton } from "@/ui/CopyButton";

export function OneTimeSecret({ hint, text }: { hint: string; text: string }) {
  const strings = useAccountStrings();
  return (
    <div role="status" className="flex flex-col gap-1">
      <p className="text-small text-soft">{hint}</p>
      <div className="flex items-center gap-2">
        <code className="min-w-0 flex-1 font-mono text-small [overflow-wrap:anywhere]">{text}</code>
        <CopyButton text={text} label={strings.copy} />
      </div>
    </div>
  );
}
