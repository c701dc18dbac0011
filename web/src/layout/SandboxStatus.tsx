/** State of the sandbox in words: commands without isolation, commands turned off, packages being installed. */

import { PackageOpen, ShieldAlert, ShieldOff } from "lucide-react";
import { useSandboxStrings } from "@/i18n/useSandboxStrings";
import type { SandboxInfo } from "@/state/sandbox";
import { InlineCode } from "@/ui/InlineCode";

interface Props {
  readonly sandbox: SandboxInfo;
}

/** Warning above a thread that commands run without isolation. */
export function HostWarning({ sandbox }: Props) {
  const strings = useSandboxStrings();
  return (
    <section
      aria-label={strings.unsafe}
      className="flex gap-2 border-b border-warning/40 bg-warning-tint px-4 py-2 text-small text-warning"
    >
      <ShieldAlert aria-hidden className="mt-px size-4 shrink-0" />
      <div className="min-w-0">
        <p>
          <strong className="font-semibold">{strings.unsafe}.</strong> {strings.unsafeHint}{" "}
          <Reason sandbox={sandbox} />
        </p>
        <Details sandbox={sandbox} />
      </div>
    </section>
  );
}

/** Lines below the composer: commands are off, packages are being installed or could not be. */
export function SandboxLines({ sandbox }: Props) {
  const strings = useSandboxStrings();
  const { tier, toolbox } = sandbox;
  if (tier === "none")
    return (
      <div className="mt-2 flex gap-2 px-1 text-small text-faint">
        <ShieldOff aria-hidden className="mt-0.5 size-3.5 shrink-0" />
        <div className="min-w-0 [overflow-wrap:anywhere]">
          <p>
            {strings.commandsOff} <Reason sandbox={sandbox} />
          </p>
          <Details sandbox={sandbox} />
        </div>
      </div>
    );
  if (toolbox?.status !== "building" && toolbox?.status !== "failed") return null;
  return (
    <p role="status" className="mt-2 flex gap-2 px-1 text-small text-faint">
      <PackageOpen aria-hidden className="mt-0.5 size-3.5 shrink-0" />
      <span className="min-w-0">
        {toolbox.status === "building" ? (
          strings.toolboxProgress(toolbox.installed, toolbox.total)
        ) : (
          <InlineCode text={strings.toolboxFailed} />
        )}
      </span>
    </p>
  );
}

/** Problem and remedy of a sandbox, by its code. */
export function Reason({ sandbox: { code, problem } }: Props) {
  const strings = useSandboxStrings();
  if (code === null && problem === null) return null;
  const { text, remedy } = code === null ? strings.unknownProblem : strings.problems[code];
  return <InlineCode text={`${text} ${remedy}`} />;
}

/** What the server says about it, for operators. */
export function Details({ sandbox: { detail, problem } }: Props) {
  const strings = useSandboxStrings();
  return (
    <details className="mt-1">
      <summary className="w-fit cursor-pointer">{strings.details}</summary>
      <p lang="en" className="font-mono [overflow-wrap:anywhere]">
        {problem ?? detail}
      </p>
    </details>
  );
}
