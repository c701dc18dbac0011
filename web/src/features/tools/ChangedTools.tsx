/** Changed tools: diff and acceptance. */

import { useQuery } from "@tanstack/react-query";
import { TriangleAlert } from "lucide-react";
import type { Pin, ToolVersion } from "@/api/tools";
import { SERVERS, useServerChange, useToolStrings } from "@/features/tools/useTools";
import { sentence } from "@/i18n/i18n";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { DiffLines } from "@/ui/DiffLines";
import { diffLines } from "@/ui/diff";
import { ErrorState, LoadingState } from "@/ui/states";

export function ChangedTools({ name }: { name: string }) {
  const strings = useToolStrings();
  const server = useServer();
  const pins = useQuery({ queryKey: [...SERVERS, "pins", name], queryFn: () => server.mcpPins(name) });
  const accepting = useServerChange((tools: readonly Pin[]) => server.acceptMcpTools(name, hashesOf(tools)));
  const pending = pins.data?.filter(({ offered }) => offered !== null) ?? [];
  return (
    <section aria-label={strings.changed} className="rounded-box border border-warning p-4">
      <div className="mb-3 flex flex-wrap items-center gap-3">
        <TriangleAlert aria-hidden className="size-5 shrink-0 text-warning" />
        <h2 className="min-w-40 flex-1 font-medium">{strings.changed}</h2>
        {pending.length > 1 && (
          <Button disabled={accepting.isPending} onClick={() => accepting.mutate(pending)}>
            {strings.acceptAll(pending.length)}
          </Button>
        )}
      </div>
      <p className="mb-3 text-small text-soft">{strings.changedHint}</p>
      {accepting.isError && (
        <p role="alert" className="mb-3 text-error">
          {strings.notAccepted} {sentence(accepting.error.message)}
        </p>
      )}
      {pins.isPending ? (
        <LoadingState />
      ) : pins.isError ? (
        <ErrorState text={strings.pinsUnavailable} onRetry={() => void pins.refetch()} />
      ) : (
        <ul className="flex flex-col gap-4">
          {pending.map((pin) => (
            <Changed
              key={pin.tool}
              pin={pin}
              busy={accepting.isPending}
              onAccept={() => accepting.mutate([pin])}
            />
          ))}
        </ul>
      )}
    </section>
  );
}

/** Accepts the versions shown. */
function hashesOf(pins: readonly Pin[]): Readonly<Record<string, string>> {
  return Object.fromEntries(pins.map(({ tool, offered }) => [tool, offered?.hash ?? ""]));
}

interface Props {
  readonly pin: Pin;
  readonly busy: boolean;
  readonly onAccept: () => void;
}

const PARTS = ["title", "description", "input_schema", "output_schema", "annotations"] as const;

function Changed({ pin: { tool, state, accepted, offered }, busy, onAccept }: Props) {
  const strings = useToolStrings();
  return (
    <li>
      <div className="mb-2 flex items-center gap-3">
        <code className="min-w-0 flex-1 truncate font-mono text-small font-medium">{tool}</code>
        <span className="text-small text-faint">{strings.pinStates[state]}</span>
        <Button disabled={busy} aria-label={strings.acceptThis(tool)} onClick={onAccept}>
          {strings.accept}
        </Button>
      </div>
      {PARTS.map((part) => (
        <Part
          key={part}
          name={strings.parts[part]}
          before={textIn(accepted, part)}
          after={textIn(offered, part)}
        />
      ))}
    </li>
  );
}

function textIn(version: ToolVersion | null, part: (typeof PARTS)[number]): string {
  return version?.[part] ?? "";
}

function Part({ name, before, after }: { name: string; before: string; after: string }) {
  if (before === after) return null;
  return (
    <div className="mb-2">
      <p className="text-small text-faint">{name}</p>
      <pre
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a long change must be scrollable by keyboard
        tabIndex={0}
        className="max-h-[16lh] overflow-auto rounded-box border border-line bg-rail py-1 font-mono text-small whitespace-pre-wrap [overflow-wrap:anywhere]"
      >
        <DiffLines lines={diffLines(before, after)} />
      </pre>
    </div>
  );
}
