/** One action to approve, edit or reject. */

import { Check, PencilLine, X } from "lucide-react";
import { useState } from "react";
import type { Decision } from "@/api/wire";
import { EditForm, RejectForm } from "@/features/chat/approval/ApprovalForms";
import { TOOL_ICONS } from "@/features/chat/tool/ToolCard";
import { ToolInput } from "@/features/chat/tool/ToolInput";
import { useStrings } from "@/i18n/context";
import type { ApprovalRequest, DecisionKind } from "@/run/approval";
import type { ToolCall } from "@/run/message";
import { toolKind, toolObject } from "@/run/toolCalls";
import { Button } from "@/ui/Button";
import { focusOnMount } from "@/ui/dom/focusOnMount";

interface Props {
  readonly place: number;
  readonly request: ApprovalRequest;
  /** True if it is the only action. */
  readonly alone: boolean;
  /** The decision, while other actions are undecided. */
  readonly decision: Decision | undefined;
  readonly onDecide: (decision: Decision) => void;
  /** Allow this and later calls of the tool in this thread. */
  readonly onAllowInThread: () => void;
  readonly onReconsider: () => void;
}

export function ApprovalItem(props: Props) {
  const { place, request, alone, decision, onDecide, onAllowInThread, onReconsider } = props;
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
          onAllowInThread={onAllowInThread}
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
  readonly left: DecisionKind | null;
  readonly onApprove: () => void;
  readonly onAllowInThread: () => void;
  readonly onOpen: (form: DecisionKind) => void;
}

function Choices({ allowed, alone, left, onApprove, onAllowInThread, onOpen }: ChoicesProps) {
  const strings = useStrings();
  const focusIfLeft = (form: DecisionKind) => (left === form ? focusOnMount : undefined);
  return (
    <div className="flex flex-wrap gap-2">
      {allowed.includes("approve") && (
        <Button primary={alone} onClick={onApprove}>
          {strings.approve}
        </Button>
      )}
      {allowed.includes("approve") && (
        <Button title={strings.approveInThreadHint} onClick={onAllowInThread}>
          {strings.approveInThread}
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
    </div>
  );
}

function Decided({ decision, onReconsider }: { decision: Decision; onReconsider: () => void }) {
  const strings = useStrings();
  const looks = {
    approve: { icon: Check, word: strings.approved, colour: "text-done" },
    edit: { icon: PencilLine, word: strings.approvedChanged, colour: "text-done" },
    reject: { icon: X, word: strings.rejected, colour: "text-error" },
  };
  const { icon: Icon, word, colour } = looks[decision.type];
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
