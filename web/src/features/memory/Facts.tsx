/** List of facts, filtered by category and search. */

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Search } from "lucide-react";
import { type ReactNode, useState } from "react";
import { CATEGORIES, type Category, type MemoryFact } from "@/api/memory";
import { FactRow } from "@/features/memory/FactRow";
import { useShown } from "@/features/memory/useMemory";
import { useLanguage } from "@/i18n/context";
import { useMemoryStrings } from "@/i18n/useMemoryStrings";
import { memoryKey } from "@/state/queries";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { useDebounced } from "@/ui/dom/useDebounced";
import { EmptyState, ErrorState, LoadingState } from "@/ui/states";

type Kind = Category | "all";

interface Props {
  readonly facts: readonly MemoryFact[];
  readonly wanted: string;
  readonly onWant: (strings: string) => void;
}

export function Facts({ facts, wanted: first, onWant }: Props) {
  const strings = useMemoryStrings();
  const language = useLanguage();
  const { isNow } = useShown();
  const [kind, setKind] = useState<Kind>("all");
  // The URL is updated after typing, so it cannot be the input's value.
  const [wanted, setWanted] = useState(first);
  const want = (text: string) => {
    setWanted(text);
    onWant(text);
  };
  const newestFirst = facts.filter(({ category }) => kind === "all" || category === kind).toReversed();
  const none = facts.length > 0 ? strings.noneOfKind : isNow ? strings.none : strings.noneAtTime;
  return (
    <section aria-label={strings.facts}>
      <div className="mb-2 flex items-baseline gap-3">
        <h2 className="text-title font-semibold">{strings.facts}</h2>
        {facts.length > 0 && (
          <span className="text-small text-faint">
            {strings.factCount(new Intl.NumberFormat(language).format(facts.length))}
          </span>
        )}
      </div>
      {facts.length > 0 && (
        <div className="mb-3 flex flex-wrap gap-2">
          {isNow && <SearchField value={wanted} onChange={want} />}
          <KindFilter value={kind} onChoose={setKind} />
        </div>
      )}
      {wanted.trim() !== "" && isNow ? (
        <SearchResults wanted={wanted.trim()} kind={kind} />
      ) : (
        <Rows key={kind} facts={newestFirst} none={facts.length === 0 && isNow ? <NoFacts /> : none} />
      )}
    </section>
  );
}

function NoFacts() {
  const strings = useMemoryStrings();
  const { add } = useShown();
  return (
    <EmptyState text={strings.none}>
      <Button onClick={add}>{strings.add}</Button>
    </EmptyState>
  );
}

function SearchField({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  const strings = useMemoryStrings();
  return (
    <label className="flex h-9 min-w-40 flex-1 items-center gap-2 rounded-box border border-line-strong bg-raised px-3 focus-within:border-accent/60">
      <Search aria-hidden className="size-4 shrink-0 text-faint" />
      <input
        type="search"
        value={value}
        maxLength={500}
        onChange={(event) => onChange(event.target.value)}
        aria-label={strings.search}
        placeholder={strings.search}
        className="min-w-0 flex-1 bg-transparent outline-none placeholder:text-faint"
      />
    </label>
  );
}

function KindFilter({ value, onChoose }: { value: Kind; onChoose: (kind: Kind) => void }) {
  const strings = useMemoryStrings();
  return (
    <select
      value={value}
      aria-label={strings.kind}
      onChange={(event) => onChoose(event.target.value as Kind)}
      className="h-9 rounded-box border border-line-strong bg-raised px-2"
    >
      <option value="all">{strings.allKinds}</option>
      {CATEGORIES.map((category) => (
        <option key={category} value={category}>
          {strings.kinds[category]}
        </option>
      ))}
    </select>
  );
}

function SearchResults({ wanted, kind }: { wanted: string; kind: Kind }) {
  const strings = useMemoryStrings();
  const { of } = useShown();
  const server = useServer();
  const settled = useDebounced(wanted);
  const found = useQuery({
    queryKey: [...memoryKey(of), "search", settled, kind],
    queryFn: () => server.searchMemory(of, settled, kind === "all" ? null : kind),
    placeholderData: keepPreviousData,
  });
  if (found.isPending) return <LoadingState />;
  if (found.isError) return <ErrorState text={strings.searchFailed} onRetry={() => void found.refetch()} />;
  return <Rows facts={found.data} none={strings.noneFound} />;
}

const AT_ONCE = 100;

/** Facts are shown in pages of one hundred. */
function Rows({ facts, none }: { facts: readonly MemoryFact[]; none: ReactNode }) {
  const strings = useMemoryStrings();
  const [most, setMost] = useState(AT_ONCE);
  if (facts.length === 0) return <div className="text-faint">{none}</div>;
  return (
    <>
      <ul aria-label={strings.facts} className="divide-y divide-line rounded-box border border-line">
        {facts.slice(0, most).map((fact) => (
          <FactRow key={fact.id} fact={fact} />
        ))}
      </ul>
      {facts.length > most && (
        <Button className="mt-3" onClick={() => setMost(most + AT_ONCE)}>
          {strings.showMore}
        </Button>
      )}
    </>
  );
}
