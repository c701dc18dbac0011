/** Approval of tool calls. */

import { ShieldQuestionMark } from "lucide-react";
import { type RefObject, useId, useLayoutEffect, useRef, useState } from "react";
import type { Decision } from "@/api/wire";
import { ApprovalItem } from "@/features/chat/approval/ApprovalItem";
import { useStrings } from "@/i18n/context";
import type { Approval } from "@/run/approval";
import { isActive } from "@/run/reduce";
import { useActions, usePage } from "@/state/context";
import { Button } from "@/ui/Button";
import { focusComposer } from "@/ui/dom/composerFocus";

export default function ApprovalBlock({ approval: { requests } }: { approval: Approval }) {
  const strings = useStrings();
  const actions = useActions();
  const label = useId();
  const dead = usePage(({ conversation }) => isActive(conversation.run));
  const [decisions, setDecisions] = useState<ReadonlyMap<number, Decision>>(new Map());
  const block = useRef<HTMLFieldSetElement>(null);
  const moveFocus = useFocusAfterUpdate(block);
  const several = requests.length > 1;

  const send = (all: readonly Decision[]) => {
    // The buttons become disabled and would lose focus.
    focusComposer();
    void actions.decide(all);
  };
  const decide = (index: number, decision: Decision) => {
    if (!several) return send([decision]);
    setDecisions(new Map(decisions).set(index, decision));
    moveFocus("[data-open] button, [data-continue]");
  };
  const reconsider = (index: number) => {
    setDecisions(new Map([...decisions].filter(([decided]) => decided !== index)));
    moveFocus(`[data-request="${index}"] button`);
  };

  return (
    <fieldset
      ref={block}
      disabled={dead}
      aria-labelledby={label}
      className="min-w-0 animate-appear overflow-hidden rounded-box border border-warning/50 disabled:opacity-60"
    >
      <div className="flex items-center gap-2 border-b border-warning/30 bg-warning-tint px-3 py-2 text-warning">
        <ShieldQuestionMark aria-hidden className="size-4 shrink-0" />
        <span id={label} className="font-medium">
          {strings.approvalTitle(requests.length)}
        </span>
        {several && (
          <span className="ml-auto shrink-0 text-small tabular-nums">
            {strings.decided(decisions.size, requests.length)}
          </span>
        )}
      </div>
      <ol className="divide-y divide-line">
        {requests.map((request, index) => (
          <ApprovalItem
            key={request.call.id}
            place={index}
            request={request}
            alone={!several}
            decision={decisions.get(index)}
            onDecide={(decision) => decide(index, decision)}
            onReconsider={() => reconsider(index)}
          />
        ))}
      </ol>
      <div className="flex flex-wrap items-center gap-2 border-t border-line bg-rail px-3 py-2">
        <p className="min-w-0 flex-1 basis-60 text-small text-faint">{strings.approvalHint}</p>
        {several && decisions.size === 0 && requests.every(({ allowed }) => allowed.includes("approve")) && (
          <Button onClick={() => send(requests.map(() => ({ type: "approve" })))}>
            {strings.approveAll}
          </Button>
        )}
        {several && (
          <Button
            primary
            data-continue
            disabled={decisions.size < requests.length}
            onClick={() => send(requests.flatMap((_, index) => decisions.get(index) ?? []))}
          >
            {strings.continueRun}
          </Button>
        )}
      </div>
    </fieldset>
  );
}

/** Moves focus after the change has rendered. */
function useFocusAfterUpdate(inside: RefObject<HTMLElement | null>): (selector: string) => void {
  const wanted = useRef<string | null>(null);
  // Flush with this change: a pending effect could focus an element about to be removed.
  useLayoutEffect(() => {
    if (wanted.current !== null) inside.current?.querySelector<HTMLElement>(wanted.current)?.focus();
    wanted.current = null;
  });
  return (selector) => {
    wanted.current = selector;
  };
}
