/** The skills there are, and what keeps others from being some. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { GraduationCap, Search, TriangleAlert } from "lucide-react";
import { useState } from "react";
import type { RefusedSkill, Skill } from "@/api/skills";
import { useWords } from "@/app/context";
import { PageFrame } from "@/app/PageFrame";
import { useServer } from "@/app/server";
import { Loading, Unshown } from "@/features/panel/states";
import { useSkillSwitch } from "@/features/skills/useSkillSwitch";
import { Switch } from "@/ui/Switch";
import { sentence } from "@/words/words";

export function SkillsPage() {
  const words = useWords();
  return (
    <PageFrame title={words.skills}>
      <p className="mb-4 text-soft">{words.skill.hint}</p>
      <AllSkills />
    </PageFrame>
  );
}

function AllSkills() {
  const { skill: words } = useWords();
  const server = useServer();
  const [wanted, setWanted] = useState("");
  const all = useQuery({ queryKey: ["skills"], queryFn: server.skills });
  if (all.isPending) return <Loading />;
  if (all.isError) return <Unshown text={words.unavailable} onRetry={() => void all.refetch()} />;
  const { skills, refused = [] } = all.data;
  const found = skills.filter((skill) => has(skill, wanted));
  return (
    <div className="flex flex-col gap-6">
      <SearchField value={wanted} onChange={setWanted} />
      {found.length === 0 && (
        <p className="text-faint">{skills.length === 0 ? words.none : words.noneFound}</p>
      )}
      <Section title={words.custom} skills={found.filter(({ category }) => category === "custom")} />
      <Section title={words.builtIn} skills={found.filter(({ category }) => category !== "custom")} />
      {refused.length > 0 && wanted === "" && <Refused refused={refused} />}
    </div>
  );
}

function has({ name, description }: Skill, wanted: string): boolean {
  const text = `${name} ${description}`.toLocaleLowerCase();
  return wanted
    .toLocaleLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

function SearchField({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  const { skill: words } = useWords();
  return (
    <label className="flex h-9 items-center gap-2 rounded-box border border-line-strong bg-raised px-3 focus-within:border-accent/60">
      <Search aria-hidden className="size-4 shrink-0 text-faint" />
      <input
        type="search"
        value={value}
        onChange={(event) => onChange(event.target.value)}
        aria-label={words.search}
        placeholder={words.search}
        className="min-w-0 flex-1 bg-transparent outline-none placeholder:text-faint"
      />
    </label>
  );
}

function Section({ title, skills }: { title: string; skills: readonly Skill[] }) {
  if (skills.length === 0) return null;
  return (
    <section aria-label={title}>
      <h2 className="mb-2 text-title font-semibold">{title}</h2>
      <ul className="divide-y divide-line rounded-box border border-line">
        {skills.map((skill) => (
          <Row key={skill.name} skill={skill} />
        ))}
      </ul>
    </section>
  );
}

function Row({ skill: { name, description, enabled } }: { skill: Skill }) {
  const { skill: words } = useWords();
  const change = useSkillSwitch(name);
  return (
    <li className="flex items-center gap-3 px-4 py-3">
      <GraduationCap aria-hidden className={`size-5 shrink-0 ${enabled ? "text-accent" : "text-faint"}`} />
      <div className="min-w-0 flex-1">
        <Link to="/skills/$name" params={{ name }} className="font-medium hover:underline">
          {name}
        </Link>
        <p className="line-clamp-2 text-small text-faint [overflow-wrap:anywhere]">{description}</p>
        {change.isError && (
          <p role="alert" className="text-small text-error">
            {words.notSwitched} {sentence(change.error.message)}
          </p>
        )}
      </div>
      <Switch on={enabled} label={words.use(name)} onSwitch={(on) => change.mutate(on)} />
    </li>
  );
}

function Refused({ refused }: { refused: readonly RefusedSkill[] }) {
  const { skill: words } = useWords();
  return (
    <section aria-label={words.refused}>
      <h2 className="mb-1 text-title font-semibold">{words.refused}</h2>
      <p className="mb-2 text-soft">{words.refusedHint}</p>
      <ul className="divide-y divide-line rounded-box border border-line">
        {refused.map(({ category, path, reason }) => (
          <li key={`${category}/${path}`} className="flex gap-3 px-4 py-3">
            <TriangleAlert aria-hidden className="mt-0.5 size-5 shrink-0 text-warning" />
            <div className="min-w-0">
              <code className="font-mono text-small [overflow-wrap:anywhere]">{`${category}/${path}`}</code>
              <p className="text-small text-soft [overflow-wrap:anywhere]">{sentence(reason)}</p>
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}
