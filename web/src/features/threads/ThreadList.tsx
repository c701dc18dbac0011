/** Thread list and navigation. */

import { Link } from "@tanstack/react-router";
import {
  Archive,
  Bot,
  Brain,
  ChartNoAxesColumn,
  GraduationCap,
  Search,
  Settings,
  SquarePen,
  Wrench,
} from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { Threads } from "@/features/threads/Threads";
import { useStrings } from "@/i18n/context";
import { useFeature } from "@/state/server";
import { useTextSearch } from "@/state/useTextSearch";
import { commandKey } from "@/ui/dom/commandKey";
import { IconButton } from "@/ui/IconButton";

// The list stays usable if the server is away when the first text is searched.
const SearchHits = lazy(() =>
  import("@/features/threads/SearchHits").catch(() => ({ default: SearchFailed })),
);
const ProjectFolders = lazy(() => import("@/features/threads/ProjectFolders"));
const SharedThreads = lazy(() => import("@/features/threads/SharedThreads"));

export function ThreadList() {
  const strings = useStrings();
  const [wanted, setWanted] = useState("");
  const [archived, setArchived] = useState(false);
  const search = useTextSearch(wanted);
  const hasSkills = useFeature("skills");
  const hasMemory = useFeature("memory");
  const hasTools = useFeature("mcp");
  const countsTokens = useFeature("token_usage");
  return (
    <nav aria-label={strings.threads} className="flex h-full flex-col">
      <div className="flex h-12 shrink-0 items-center gap-2 px-5 font-semibold tracking-tight">
        <img src="/icon.svg" alt="" className="size-5" />
        DeerFlow
      </div>
      <div className="flex flex-col gap-2 px-3 pb-3">
        <Link
          to="/"
          className="flex h-9 items-center gap-2 rounded-box border border-line bg-raised px-3 font-medium hover:border-line-strong"
        >
          <SquarePen aria-hidden className="size-4 text-accent" />
          {strings.newThread}
        </Link>
        <div className="flex gap-1">
          <SearchField value={wanted} onChange={setWanted} />
          <IconButton
            icon={Archive}
            label={strings.showArchived}
            aria-pressed={archived}
            onClick={() => setArchived(!archived)}
            className="size-9 aria-pressed:bg-tint-strong aria-pressed:text-ink"
          />
        </div>
      </div>
      {wanted === "" && !archived && (
        <Suspense>
          <ProjectFolders />
          <SharedThreads />
        </Suspense>
      )}
      <Threads wanted={wanted} archived={archived} hasHits={search.hits.length > 0}>
        {wanted !== "" && (
          <Suspense>
            <SearchHits search={search} />
          </Suspense>
        )}
      </Threads>
      <div className="border-t border-line px-3 py-2">
        <Link to="/agents" className={PLACE}>
          <Bot aria-hidden className="size-4" />
          {strings.agents}
        </Link>
        {hasSkills && (
          <Link to="/skills" className={PLACE}>
            <GraduationCap aria-hidden className="size-4" />
            {strings.skills}
          </Link>
        )}
        {hasMemory && (
          <Link to="/memory" className={PLACE}>
            <Brain aria-hidden className="size-4" />
            {strings.memory}
          </Link>
        )}
        {hasTools && (
          <Link to="/tools" className={PLACE}>
            <Wrench aria-hidden className="size-4" />
            {strings.tools}
          </Link>
        )}
        {countsTokens && (
          <Link to="/usage" className={PLACE}>
            <ChartNoAxesColumn aria-hidden className="size-4" />
            {strings.workspace.usage}
          </Link>
        )}
        <Link to="/settings" className={PLACE}>
          <Settings aria-hidden className="size-4" />
          {strings.settings}
        </Link>
      </div>
    </nav>
  );
}

function SearchField({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  const strings = useStrings();
  return (
    <label className="flex h-9 min-w-0 flex-1 items-center gap-2 rounded-box border border-transparent bg-tint-strong/60 px-3 focus-within:border-accent/60">
      <Search aria-hidden className="size-4 shrink-0 text-faint" />
      <input
        type="search"
        value={value}
        onChange={(event) => onChange(event.target.value)}
        onKeyDown={(event) => {
          if (event.key !== "Escape" || value === "") return;
          event.preventDefault();
          onChange("");
        }}
        aria-label={strings.searchThreads}
        placeholder={strings.search}
        title={`${commandKey(navigator.platform)}+K`}
        className="min-w-0 flex-1 bg-transparent outline-none placeholder:text-faint"
      />
    </label>
  );
}

const PLACE =
  "flex h-8 items-center gap-2 rounded-box px-2 pointer-coarse:h-11 text-soft hover:bg-tint hover:text-ink aria-[current]:bg-tint-strong aria-[current]:text-ink";

function SearchFailed() {
  return <p className="p-2 text-small text-faint">{useStrings().searchFailed}</p>;
}
