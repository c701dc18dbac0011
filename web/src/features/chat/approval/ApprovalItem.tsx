/** One action to approve, edit or reject. */

import { Check, PencilLine, X } from "lucide-react";
import { useId, useState } from "react";
import type { Decision } from "@/api/wire";
import { EditForm, RejectForm } from "@/features/chat/approval/ApprovalForms";
import { ToolInput } from "@/features/chat/tool/ToolInput";
import { type ApprovalStrings, useApprovalStrings } from "@/i18n/approvals";
import { useStrings } from "@/i18n/context";
import type { ApprovalRequest, DecisionKind, Permission } from "@/run/approval";
import type { ToolCall } from "@/run/message";
import { toolKind, toolObject } from "@/run/toolCalls";
import { Button } from "@/ui/Button";
import { focusOnMount } from "@/ui/dom/focusOnMount";
import { TOOL_ICONS } from "@/ui/toolIcons";

interface Props {
  readonly place: number;
  readonly request: ApprovalRequest;
  /** True if it is the only action. */
  readonly alone: boolean;
  /** The decision, while other actions are undecided. */
  readonly decision: Decision | undefined;
  readonly onDecide: (decision: Decision) => void;
  readonly onReconsider: () => void;
}

export function ApprovalItem(props: Props) {
  const { place, request, alone, decision, onDecide, onReconsider } = props;
  const strings = useStrings();
  const { call, allowed } = request;
  const reasons: Readonly<Record<string, string>> = strings.policyReasons;
  const reason = reasons[request.code ?? ""] ?? request.reason;
  // `left` is the form closed without a decision; focus returns to its button.
  const [form, setForm] = useState<{ open: DecisionKind | null; left: DecisionKind | null }>({
    open: null,
    left: null,
  });
  const decide = (made: Decision) => {
    setForm({ open: null, left: null });
    onDecide(made);
  };
  const cancel = () => setForm({ open: null, left: form.open });
  return (
    <li
      data-request={place}
      data-open={decision === undefined ? "" : undefined}
      className="flex flex-col gap-3 p-3"
    >
      <Headline call={call} />
      {reason !== null && <p className="wrap-anywhere text-small text-soft">{reason}</p>}
      {form.open !== "edit" && <ToolInput call={decidedCall(call, decision)} />}
      {decision !== undefined ? (
        <Decided decision={decision} onReconsider={onReconsider} />
      ) : form.open === "edit" ? (
        <EditForm call={call} onDecide={decide} onCancel={cancel} />
      ) : form.open === "reject" ? (
        <RejectForm onDecide={decide} onCancel={cancel} />
      ) : (
        <Choices
          allowed={allowed}
          alone={alone}
          left={form.left}
          onApprove={() => decide({ type: "approve" })}
          permission={request.permission}
          tool={call.name}
          onAllowInThread={() => decide({ type: "approve", scope: "thread" })}
          onOpen={(open) => setForm({ open, left: null })}
        />
      )}
    </li>
  );
}

function Headline({ call }: { call: ToolCall }) {
  const strings = useStrings();
  const kind = toolKind(call);
  const Icon = TOOL_ICONS[kind];
  return (
    <div className="flex items-center gap-2 text-ui">
      <Icon aria-hidden className="size-4 shrink-0 text-faint" />
      <span className="shrink-0 font-medium">{strings.toolVerbs[kind].plain}</span>
      {/* The full command is shown below. */}
      {kind !== "run" && kind !== "start" && (
        <code className="min-w-0 truncate font-mono text-small">{toolObject(call)}</code>
      )}
    </div>
  );
}

interface ChoicesProps {
  readonly allowed: readonly DecisionKind[];
  readonly alone: boolean;
  /** What can be allowed for the rest of the thread. */
  readonly permission: Permission | null;
  readonly tool: string;
  readonly left: DecisionKind | null;
  readonly onApprove: () => void;
  readonly onAllowInThread: () => void;
  readonly onOpen: (form: DecisionKind) => void;
}

function Choices(props: ChoicesProps) {
  const { allowed, alone, permission, tool, left, onApprove, onAllowInThread, onOpen } = props;
  const strings = useStrings();
  const approvals = useApprovalStrings();
  const note = useId();
  const offered = allowed.includes("approve") ? permission : null;
  const focusIfLeft = (form: DecisionKind) => (left === form ? focusOnMount : undefined);
  return (
    <div className="grid grid-cols-2 gap-2 wide:flex wide:flex-wrap">
      {allowed.includes("approve") && (
        <Button primary={alone} onClick={onApprove}>
          {strings.approve}
        </Button>
      )}
      {offered !== null && (
        <Button aria-describedby={note} onClick={onAllowInThread}>
          {approvals.allowInThread}
        </Button>
      )}
      {allowed.includes("edit") && (
        <Button ref={focusIfLeft("edit")} onClick={() => onOpen("edit")}>
          {strings.edit}
        </Button>
      )}
      {allowed.includes("reject") && (
        <Button ref={focusIfLeft("reject")} onClick={() => onOpen("reject")}>
          {strings.reject}
        </Button>
      )}
      {offered !== null && (
        <p id={note} className="col-span-2 basis-full wrap-anywhere text-small text-faint">
          {approvals.scope(describeScope(offered, tool, approvals))}
        </p>
      )}
    </div>
  );
}

/** Say what would run without asking. */
function describeScope({ hosts }: Permission, tool: string, strings: ApprovalStrings): string {
  if (hosts.length > 0) return strings.scopes.hosts(tool, hosts.join(", "));
  return tool === "bash" ? strings.scopes.commands : strings.scopes.tool(tool);
}

function Decided({ decision, onReconsider }: { decision: Decision; onReconsider: () => void }) {
  const strings = useStrings();
  const looks = {
    approve: { icon: Check, word: strings.approved, colour: "text-done" },
    edit: { icon: PencilLine, word: strings.approvedChanged, colour: "text-done" },
    reject: { icon: X, word: strings.rejected, colour: "text-error" },
  };
  const approvals = useApprovalStrings();
  const { icon: Icon, word: once, colour } = looks[decision.type];
  const word = decision.type === "approve" && decision.scope === "thread" ? approvals.allowedInThread : once;
  return (
    <div className="flex min-h-8 items-center gap-2">
      <Icon aria-hidden className={`size-4 shrink-0 ${colour}`} />
      <span className={colour}>{word}</span>
      {decision.type === "reject" && decision.message !== undefined && (
        <span className="min-w-0 truncate text-soft">{decision.message}</span>
      )}
      <Button className="ml-auto" onClick={onReconsider}>
        {strings.editDecision}
      </Button>
    </div>
  );
}

function decidedCall(call: ToolCall, decision: Decision | undefined): ToolCall {
  return decision?.type === "edit" ? { ...call, args: decision.edited_action.args } : call;
}
