/** Input of a tool call: command, file text, diff or arguments. */

import { Monospace } from "@/features/chat/tool/Monospace";
import { useStrings } from "@/i18n/context";
import type { Strings } from "@/i18n/i18n";
import type { ToolCall } from "@/run/message";
import { argsText, itemCount, textArgument, toolKind, toolReason } from "@/run/toolCalls";
import { DiffLines } from "@/ui/DiffLines";
import { diffLines } from "@/ui/diff";

export function ToolInput({ call }: { call: ToolCall }) {
  const strings = useStrings();
  const label = toolReason(call) || strings.toolInput;
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
      return (
        <Monospace
          label={label}
          note={delegationSummary(call, strings)}
          text={textArgument(call, "prompt")}
        />
      );
    default:
      return <Monospace label={label} text={argsText(withoutReason(call))} />;
  }
}

/** Show the agent and the item count, not thousands of items. */
function delegationSummary(call: ToolCall, strings: Strings): string {
  const count = itemCount(call);
  const what = count === null ? textArgument(call, "file") : strings.items(count);
  return [textArgument(call, "subagent_type"), what].filter(Boolean).join(" · ");
}

/** The reason is already shown above. */
function withoutReason(call: ToolCall): ToolCall {
  if (typeof call.args === "string" || toolReason(call) === "") return call;
  const { description: _, ...args } = call.args;
  return { ...call, args };
}
