/** List of skills and of folders that failed to load. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { Plus, Search, TriangleAlert } from "lucide-react";
import { useState } from "react";
import type { RefusedSkill, Skill } from "@/api/skills";
import { InstallFromUrl } from "@/features/skills/InstallFromUrl";
import { InstallButtons, useInstallation } from "@/features/skills/InstallSkill";
import { SkillIcon } from "@/features/skills/SkillIcon";
import { useSkillSwitch } from "@/features/skills/useSkillSwitch";
import { useStrings } from "@/i18n/context";
import { sentence } from "@/i18n/i18n";
import { useSkillText } from "@/i18n/skillTexts";
import { useTeamStrings } from "@/i18n/teams";
import { PageFrame } from "@/layout/PageFrame";
import { OwnerNote } from "@/layout/ShareThing";
import { useFeature, useServer } from "@/state/server";
import { Button, buttonLook } from "@/ui/Button";
import { Switch } from "@/ui/Switch";
import { EmptyState, ErrorState, LoadingState } from "@/ui/states";

export function SkillsPage() {
  const strings = useStrings();
  const { deleted } = useSearch({ from: "/skills" });
  const installing = useInstallation();
  const [asking, setAsking] = useState(false);
  const [url, setUrl] = useState("");
  const problem = installing.error?.message ?? null;
  const ask = (open: boolean) => {
    if (!installing.isPending) installing.reset();
    setAsking(open);
  };
  const makes = useFeature("skill_editing");
  return (
    <PageFrame
      isWide
      title={strings.skills}
      actions={
        makes && (
          <>
            <InstallButtons
              busy={installing.isPending}
              onChoose={installing.mutate}
              onAskUrl={() => ask(true)}
            />
            <Link
              to="/skills/_new"
              className="inline-flex h-8 items-center gap-1 rounded-box bg-accent px-3 font-medium text-on-accent hover:bg-accent-strong"
            >
              <Plus aria-hidden className="size-4" />
              {strings.skill.new}
            </Link>
          </>
        )
      }
    >
      {asking && (
        <InstallFromUrl
          url={url}
          onChange={setUrl}
          busy={installing.isPending}
          problem={problem}
          onInstall={() => installing.mutate(url.trim())}
          onClose={() => ask(false)}
        />
      )}
      {installing.isPending && !asking && (
        <p role="status" className="mb-4 rounded-box bg-tint px-3 py-2">
          {strings.skill.installing}
        </p>
      )}
      {problem !== null && !asking && (
        <p role="alert" className="mb-4 rounded-box bg-error-tint px-3 py-2 whitespace-pre-wrap text-error">
          {strings.skill.notInstalled} {sentence(problem)}
        </p>
      )}
      {deleted !== undefined && <Deleted name={deleted} />}
      <p className="mb-4 text-soft">{strings.skill.hint}</p>
      <SkillList />
    </PageFrame>
  );
}

/** Notice of a deletion, with undo. */
function Deleted({ name }: { name: string }) {
  const { skill: strings } = useStrings();
  const server = useServer();
  const queries = useQueryClient();
  const navigate = useNavigate();
  const back = useMutation({
    mutationFn: () => server.undoSkillChange(name, -1),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["skills"] });
      await navigate({ to: "/skills/$name", params: { name } });
    },
  });
  return (
    <div role="status" className="mb-4 flex items-center gap-3 rounded-box bg-tint px-3 py-2">
      <p className="min-w-0 flex-1">{back.isError ? sentence(back.error.message) : strings.deleted(name)}</p>
      <Button disabled={back.isPending} onClick={() => back.mutate()}>
        {strings.undo}
      </Button>
    </div>
  );
}

function SkillList() {
  const { skill: strings } = useStrings();
  const server = useServer();
  const words = useTeamStrings();
  const [wanted, setWanted] = useState("");
  const localized = useSkillText();
  const all = useQuery({ queryKey: ["skills"], queryFn: server.skills });
  if (all.isPending) return <LoadingState />;
  if (all.isError) return <ErrorState text={strings.unavailable} onRetry={() => void all.refetch()} />;
  const { skills, refused = [] } = all.data;
  const found = skills.filter(
    (skill) =>
      has(skill, wanted) ||
      has({ ...skill, name: localized(skill).title, description: localized(skill).description }, wanted),
  );
  return (
    <div className="flex flex-col gap-6">
      <SearchField value={wanted} onChange={setWanted} />
      {found.length === 0 &&
        (skills.length === 0 ? (
          <EmptyState text={strings.none}>
            <Link to="/skills/_new" className={buttonLook()}>
              {strings.new}
            </Link>
          </EmptyState>
        ) : (
          <p className="text-faint">{strings.noneFound}</p>
        ))}
      <Section title={strings.custom} skills={found.filter(({ category }) => category === "custom")} />
      <Section title={words.sharedWithMe} skills={found.filter(({ category }) => category === "shared")} />
      <Section title={strings.builtIn} skills={found.filter(({ category }) => category === "public")} />
      {refused.length > 0 && wanted === "" && <ApiError refused={refused} />}
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
  const { skill: strings } = useStrings();
  return (
    <label className="flex h-9 items-center gap-2 rounded-box border border-line-strong bg-raised px-3 focus-within:border-accent/60">
      <Search aria-hidden className="size-4 shrink-0 text-faint" />
      <input
        type="search"
        value={value}
        onChange={(event) => onChange(event.target.value)}
        aria-label={strings.search}
        placeholder={strings.search}
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
      <ul className="grid gap-2 min-[1200px]:grid-cols-2">
        {skills.map((skill) => (
          <Row key={skill.name} skill={skill} />
        ))}
      </ul>
    </section>
  );
}

function Row({ skill }: { skill: Skill }) {
  const { skill: strings } = useStrings();
  const { name, enabled } = skill;
  const { title, description } = useSkillText()(skill);
  const change = useSkillSwitch(name);
  return (
    <li className="flex items-center gap-3 rounded-box border border-line px-4 py-3">
      <SkillIcon name={name} enabled={enabled} />
      <div className="min-w-0 flex-1">
        <Link to="/skills/$name" params={{ name }} className="font-medium hover:underline">
          {title}
        </Link>
        {title !== name && <code className="ml-2 font-mono text-small text-faint">{name}</code>}
        <p className="line-clamp-2 text-small text-faint [overflow-wrap:anywhere]">{description}</p>
        <OwnerNote share={skill} />
        {change.isError && (
          <p role="alert" className="text-small text-error">
            {strings.notSwitched} {sentence(change.error.message)}
          </p>
        )}
      </div>
      <Switch on={enabled} label={strings.use(name)} onSwitch={(on) => change.mutate(on)} />
    </li>
  );
}

function ApiError({ refused }: { refused: readonly RefusedSkill[] }) {
  const { skill: strings } = useStrings();
  return (
    <section aria-label={strings.refused}>
      <h2 className="mb-1 text-title font-semibold">{strings.refused}</h2>
      <p className="mb-2 text-soft">{strings.refusedHint}</p>
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
