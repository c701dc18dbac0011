/** Cards of the start page: tasks with a small drawing of their result. */

import type { ReactNode } from "react";
import type { Starter } from "@/api/wire";
import { useStrings } from "@/i18n/context";
import { useStarterStrings } from "@/i18n/starters";
import { useActions } from "@/state/context";
import { useCurrentModel, useStarters } from "@/state/models";

type Result = "chart" | "deck" | "report" | "page" | "table" | "plan";
type Drawing = Result | "question";

// What the built-in demo can play, by the result it shows. The notice has the way to a real model.
const DEMOS: Readonly<Record<string, Drawing>> = {
  chart: "chart",
  slides: "deck",
  tour: "report",
  "ask-first": "question",
  formatting: "table",
  plan: "plan",
};
const RESULTS: readonly Result[] = ["chart", "deck", "report", "page", "table", "plan"];

interface Task {
  readonly id: string;
  readonly result: Drawing;
  readonly title: string;
  readonly prompt: string;
  readonly planMode: boolean;
}

export default function StarterCards() {
  const actions = useActions();
  return useTasks().map(({ id, result, title, prompt, planMode }) => (
    <li key={id} className="min-w-0">
      <button
        type="button"
        onClick={() => void actions.send(prompt, { planMode })}
        className="flex h-full w-full animate-appear flex-col gap-2 rounded-box border border-line bg-raised p-3 text-left text-ui text-soft hover:border-line-strong hover:bg-tint hover:text-ink"
      >
        <svg
          viewBox="0 0 64 40"
          aria-hidden="true"
          className="h-14 w-full rounded-[6px] bg-rail text-line-strong"
          fill="none"
          stroke="currentColor"
          strokeWidth="1.5"
          strokeLinecap="round"
          strokeLinejoin="round"
        >
          {DRAWINGS[result]}
        </svg>
        {title}
      </button>
    </li>
  ));
}

/** Return what the demo can play, or tasks for a real model. */
function useTasks(): readonly Task[] {
  const strings = useStrings();
  const tasks = useStarterStrings();
  const starters = useStarters();
  const scripted = useCurrentModel()?.scripted;
  const titles: Readonly<Record<string, string>> = strings.starterTitles;
  if (scripted === undefined) return [];
  if (!scripted) {
    return RESULTS.map((result) => ({ id: result, result, ...tasks[result], planMode: result === "plan" }));
  }
  return starters.flatMap((starter: Starter) => {
    if (starter.id === "real-model") return [];
    const result = DEMOS[starter.id] ?? "report";
    const { id, prompt, is_plan_mode: planMode } = starter;
    return [{ id, result, title: titles[id] ?? starter.title, prompt, planMode }];
  });
}

const ACCENT = "stroke-accent";

const DRAWINGS: Readonly<Record<Drawing, ReactNode>> = {
  chart: (
    <>
      <path d="M16 8v24h34" />
      <path d="M23 32v-8M31 32v-13M39 32v-10" strokeWidth="4" strokeLinecap="butt" />
      <path d="M20 21l9-7 9 3 10-9" className={ACCENT} />
    </>
  ),
  deck: (
    <>
      <rect x="20" y="6" width="30" height="20" rx="2" />
      <rect x="14" y="12" width="30" height="20" rx="2" className="fill-raised" />
      <path d="M19 18h12" className={ACCENT} />
      <path d="M19 23h18M19 27h14" />
    </>
  ),
  report: (
    <>
      <path d="M22 5h14l6 6v24H22z" />
      <path d="M36 5v6h6" />
      <path d="M26 16h8" className={ACCENT} />
      <path d="M26 21h12M26 25h12M26 29h8" />
    </>
  ),
  page: (
    <>
      <rect x="13" y="7" width="38" height="26" rx="2" />
      <path d="M13 13h38M17 10h.1M20 10h.1" />
      <rect x="18" y="17" width="12" height="11" rx="1" className={ACCENT} />
      <path d="M34 19h12M34 23h12M34 27h7" />
    </>
  ),
  table: (
    <>
      <rect x="14" y="8" width="36" height="24" rx="2" />
      <path d="M14 14h36" className={ACCENT} />
      <path d="M14 20h36M14 26h36M26 8v24M38 8v24" />
    </>
  ),
  question: (
    <>
      <path d="M16 8h32v20H30l-7 6v-6h-7z" />
      <path d="M29 15c0-4 6-4 6 0 0 2-3 2-3 5M32 24h.1" className={ACCENT} />
    </>
  ),
  plan: (
    <>
      <path d="M18 11l2 2 4-4M18 21l2 2 4-4" className={ACCENT} />
      <rect x="18" y="28" width="5" height="5" rx="1" />
      <path d="M29 11h18M29 21h14M29 31h16" />
    </>
  ),
};
