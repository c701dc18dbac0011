/** Dialog that installs a skill from a URL; a rejected one is kept. */

import { useId } from "react";
import { useStrings } from "@/i18n/context";
import { sentence } from "@/i18n/i18n";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";

interface Props {
  readonly url: string;
  readonly onChange: (url: string) => void;
  readonly busy: boolean;
  readonly problem: string | null;
  readonly onInstall: () => void;
  /** An installation that has started goes on. */
  readonly onClose: () => void;
}

export function InstallFromUrl({ url, onChange, busy, problem, onInstall, onClose }: Props) {
  const { cancel, close, skill: strings } = useStrings();
  const id = useId();
  return (
    <Dialog label={strings.installUrl} onClose={onClose} className="w-[min(32rem,94vw)]">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          onInstall();
        }}
        className="flex flex-col gap-4 p-5"
      >
        <h2 className="text-title font-semibold">{strings.installUrl}</h2>
        <div className="flex flex-col gap-1">
          <label htmlFor={id} className="font-medium">
            {strings.url}
          </label>
          <input
            id={id}
            aria-describedby={`${id}-hint`}
            value={url}
            // Not type "url": the browser would reject addresses with messages of its own.
            inputMode="url"
            autoComplete="off"
            spellCheck={false}
            readOnly={busy}
            placeholder="https://github.com/"
            onChange={(event) => onChange(event.target.value)}
            className="h-9 rounded-box border border-line-strong bg-raised px-3 font-mono text-small outline-none placeholder:text-faint focus:border-accent"
          />
          <p id={`${id}-hint`} role="status" className="text-small text-faint">
            {busy ? strings.urlBusy : strings.urlHint}
          </p>
        </div>
        {problem !== null && (
          <p
            role="alert"
            className="max-h-[30dvh] overflow-y-auto rounded-box bg-error-tint px-3 py-2 whitespace-pre-wrap text-error [overflow-wrap:anywhere]"
          >
            {strings.notInstalled} {sentence(problem)}
          </p>
        )}
        <div className="flex flex-wrap justify-end gap-2">
          <Button onClick={onClose}>{busy ? close : cancel}</Button>
          <Button type="submit" primary disabled={busy || url.trim() === ""}>
            {busy ? strings.installing : strings.installThis}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
