/** Input of a tool call: command, file text, diff or arguments. */

import { ArgumentFields } from "@/features/chat/tool/ArgumentFields";
import { Monospace } from "@/features/chat/tool/Monospace";
import { useStrings } from "@/i18n/context";
import type { Strings } from "@/i18n/i18n";
import type { ToolCall } from "@/run/message";
import { argsText, itemCount, textArgument, toolKind, toolReason } from "@/run/toolCalls";
import { DiffLines } from "@/ui/DiffLines";
import { diffLines } from "@/ui/diff";

interface Props {
  readonly call: ToolCall;
  /** The reason for the call is shown elsewhere. */
  readonly named?: boolean;
}

export function ToolInput({ call, named = false }: Props) {
  const strings = useStrings();
  const label = (!named && toolReason(call)) || strings.toolInput;
  // Invalid JSON arguments are shown as text.
  const kind = typeof call.args === "string" ? "use" : toolKind(call);
  switch (kind) {
    case "run":
    case "start":
      return <Monospace label={label} text={textArgument(call, "command")} />;
    case "write":
      return (
        <Monospace label={label} note={textArgument(call, "path")} text={textArgument(call, "content")} />
      );
    case "edit":
      return (
        <Monospace label={label} note={textArgument(call, "path")}>
          <DiffLines lines={diffLines(textArgument(call, "old_str"), textArgument(call, "new_str"))} />
        </Monospace>
      );
    case "delegate":
      return <Task note={delegationSummary(call, strings)} text={textArgument(call, "prompt")} />;
    default:
      return <Arguments label={label} call={withoutReason(call)} />;
  }
}

/** Task of a subagent, in the face of text. */
function Task({ note, text }: { note: string; text: string }) {
  const strings = useStrings();
  return (
    <div className="text-small">
      <div className="mb-1 flex gap-2 text-faint">
        <span>{strings.subagentTask}</span>
        <span>{note}</span>
      </div>
      <div
        // biome-ignore lint/a11y/noNoninteractiveTabindex: long text must be scrollable by keyboard
        tabIndex={0}
        className="max-h-[20lh] overflow-y-auto whitespace-pre-wrap [overflow-wrap:anywhere]"
      >
        {text}
      </div>
    </div>
  );
}

function Arguments({ label, call }: { label: string; call: ToolCall }) {
  // Arguments that are still streaming, or are no JSON.
  if (typeof call.args === "string") return <Monospace label={label} text={argsText(call)} />;
  return (
    <div className="text-small">
      <div className="mb-1 text-faint">{label}</div>
      <ArgumentFields args={call.args} />
    </div>
  );
}

// Every server has it, so its name says nothing.
const GENERAL = "general-purpose";

/** Show the agent and the item count, not thousands of items. */
function delegationSummary(call: ToolCall, strings: Strings): string {
  const count = itemCount(call);
  const what = count === null ? textArgument(call, "file") : strings.items(count);
  const agent = textArgument(call, "subagent_type");
  return [agent === GENERAL ? "" : agent, what].filter(Boolean).join(" · ");
}

/** The reason is already shown above. */
function withoutReason(call: ToolCall): ToolCall {
  if (typeof call.args === "string" || toolReason(call) === "") return call;
  const { description: _, ...args } = call.args;
  return { ...call, args };
}
