/** Start page of a new thread. */

import { Composer } from "@/features/chat/composer/Composer";
import type { UseAttachments } from "@/features/chat/composer/useAttachments";
import { useStrings } from "@/i18n/context";
import { useActions } from "@/state/context";
import { useStarters } from "@/state/models";

export function NewThread({ attachments }: { attachments: UseAttachments }) {
  const strings = useStrings();
  const actions = useActions();
  const starters = useStarters();
  const titles: Readonly<Record<string, string>> = strings.starterTitles;
  return (
    <div className="flex min-h-0 flex-1 flex-col overflow-y-auto">
      <div className="my-auto flex flex-col pt-6 pb-[12vh]">
        <div className="mx-auto w-full max-w-[46rem] px-4 pb-6">
          <h2 className="text-display font-semibold tracking-tight text-balance">{strings.greeting}</h2>
          <p className="mt-2 text-prose text-soft">{strings.greetingHint}</p>
        </div>
        <Composer attachments={attachments} />
        {/* Reserve the space while starters load to avoid a layout shift. */}
        <ul
          aria-label={strings.starters}
          className="mx-auto mt-2 flex min-h-75 w-full max-w-[46rem] flex-wrap content-start gap-2 px-4 wide:min-h-31"
        >
          {starters.map((starter) => (
            <li key={starter.id}>
              <button
                type="button"
                onClick={() => void actions.send(starter.prompt, { planMode: starter.is_plan_mode })}
                className="h-9 animate-appear rounded-full border border-line px-3 text-ui text-soft hover:border-line-strong hover:bg-tint hover:text-ink"
              >
                {titles[starter.id] ?? starter.title}
              </button>
            </li>
          ))}
        </ul>
      </div>
    </div>
  );
}
