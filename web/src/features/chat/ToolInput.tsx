/** What went into a tool call: a command, a file's new text, a change, or plain arguments. */

import { useStrings } from "@/app/context";
import { DiffLines } from "@/features/chat/DiffLines";
import { diffLines } from "@/features/chat/diff";
import { Mono } from "@/features/chat/Mono";
import { argsText, itemCount, textArgument, toolKind, toolReason } from "@/features/chat/tools";
import type { Strings } from "@/i18n/i18n";
import type { ToolCall } from "@/run/message";

export function ToolInput({ call }: { call: ToolCall }) {
  const strings = useStrings();
  const label = toolReason(call) || strings.toolInput;
  // Arguments that never became JSON are shown as they came.
  const kind = typeof call.args === "string" ? "use" : toolKind(call);
  switch (kind) {
    case "run":
    case "start":
      return <Mono label={label} text={textArgument(call, "command")} />;
    case "write":
      return <Mono label={label} note={textArgument(call, "path")} text={textArgument(call, "content")} />;
    case "edit":
      return (
        <Mono label={label} note={textArgument(call, "path")}>
          <DiffLines lines={diffLines(textArgument(call, "old_str"), textArgument(call, "new_str"))} />
        </Mono>
      );
    case "delegate":
      return <Mono label={label} note={whoAndWhat(call, strings)} text={textArgument(call, "prompt")} />;
    default:
      return <Mono label={label} text={argsText(withoutReason(call))} />;
  }
}

/** Who is to do it, and for how many things: of thousands a list would say less. */
function whoAndWhat(call: ToolCall, strings: Strings): string {
  const count = itemCount(call);
  const what = count === null ? textArgument(call, "file") : strings.items(count);
  return [textArgument(call, "subagent_type"), what].filter(Boolean).join(" · ");
}

/** The reason stands above already. */
function withoutReason(call: ToolCall): ToolCall {
  if (typeof call.args === "string" || toolReason(call) === "") return call;
  const { description: _, ...args } = call.args;
  return { ...call, args };
}
