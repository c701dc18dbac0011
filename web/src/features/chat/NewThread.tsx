/** Start page of a new thread. */

import { lazy, Suspense } from "react";
import { Composer } from "@/features/chat/composer/Composer";
import type { UseAttachments } from "@/features/chat/composer/useAttachments";
import { TemporarySwitch } from "@/features/chat/TemporaryChat";
import { useStrings } from "@/i18n/context";
import { usePage } from "@/state/context";

const StarterCards = lazy(() => import("@/features/chat/StarterCards"));
const AgentGreeting = lazy(async () => ({
  default: (await import("@/features/chat/AgentStart")).AgentGreeting,
}));
const AgentStarters = lazy(async () => ({
  default: (await import("@/features/chat/AgentStart")).AgentStarters,
}));

export function NewThread({ attachments }: { attachments: UseAttachments }) {
  const strings = useStrings();
  const { agent, bootstrap } = usePage((page) => page.activeAgent);
  const isLead = agent === null && !bootstrap;
  return (
    <div className="flex min-h-0 flex-1 flex-col overflow-y-auto">
      <div className="my-auto flex flex-col pt-6 pb-[12vh]">
        <div className="mx-auto w-full max-w-[46rem] px-4 pb-6">
          {isLead ? (
            <>
              <h2 className="text-display font-[550] tracking-[-0.02em] text-balance">{strings.greeting}</h2>
              <p className="mt-2 text-prose text-soft">{strings.greetingHint}</p>
            </>
          ) : (
            <Suspense fallback={<div className="h-24" />}>
              <AgentGreeting agent={bootstrap ? null : agent} />
            </Suspense>
          )}
        </div>
        <Composer attachments={attachments} />
        <TemporarySwitch />
        {isLead ? (
          <Starters />
        ) : (
          <Suspense>
            <AgentStarters agent={bootstrap ? null : agent} />
          </Suspense>
        )}
      </div>
    </div>
  );
}

function Starters() {
  const strings = useStrings();
  return (
    // Reserve the space while starters load to avoid a layout shift.
    <ul
      aria-label={strings.starters}
      className="mx-auto mt-2 grid min-h-100 w-full max-w-[46rem] grid-cols-2 content-start gap-2 px-4 wide:min-h-62 wide:grid-cols-3"
    >
      <Suspense>
        <StarterCards />
      </Suspense>
    </ul>
  );
}
