/** Page of one skill. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import type { SkillWithContent } from "@/api/skills";
import { SkillEditor } from "@/features/skills/SkillEditor";
import { SkillHistory } from "@/features/skills/SkillHistory";
import { SkillSource } from "@/features/skills/SkillSource";
import { SkillTests } from "@/features/skills/SkillTests";
import { useSkillSwitch } from "@/features/skills/useSkillSwitch";
import { useLanguage, useStrings } from "@/i18n/context";
import { formatSize } from "@/i18n/format";
import { sentence } from "@/i18n/i18n";
import { useSkillText } from "@/i18n/skillTexts";
import { useTeamStrings } from "@/i18n/teams";
import { PageFrame } from "@/layout/PageFrame";
import { OwnerNote, ShareThingButton } from "@/layout/ShareThing";
import { Markdown } from "@/markdown/Markdown";
import { useActions } from "@/state/context";
import { useFeature, useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { focusComposer } from "@/ui/dom/composerFocus";
import { Switch } from "@/ui/Switch";
import { ErrorState, LoadingState } from "@/ui/states";

export function SkillPage() {
  const { skill: strings } = useStrings();
  const { name } = useParams({ from: "/skills/$name" });
  const server = useServer();
  const skill = useQuery({ queryKey: ["skills", name], queryFn: () => server.skill(name) });
  const text = useSkillText();
  return (
    <PageFrame
      title={skill.isSuccess ? text(skill.data).title : name}
      actions={skill.isSuccess && <UseSkillButton skill={skill.data} />}
    >
      {skill.isPending ? (
        <LoadingState />
      ) : skill.isError ? (
        <ErrorState text={strings.missing} onRetry={() => void skill.refetch()} />
      ) : (
        <SkillDetails key={name} skill={skill.data} />
      )}
    </PageFrame>
  );
}

function UseSkillButton({ skill: { name, enabled, editable } }: { skill: SkillWithContent }) {
  const { skill: strings } = useStrings();
  const actions = useActions();
  const change = useSkillSwitch(name);
  const start = async () => {
    await actions.open(null);
    actions.draft(`/${name} `);
    focusComposer();
  };
  return (
    <>
      {editable && <ShareThingButton of={{ kind: "skill", id: name }} />}
      <Switch on={enabled} label={strings.use(name)} onSwitch={(on) => change.mutate(on)} />
      <Button disabled={!enabled} onClick={() => void start()}>
        {strings.tryIt}
      </Button>
    </>
  );
}

function SkillDetails({ skill }: { skill: SkillWithContent }) {
  const strings = useStrings();
  const words = useTeamStrings();
  const [editing, setEditing] = useState(false);
  const edits = useFeature("skill_editing");
  const own = edits && skill.editable;
  const address = skill.address ?? skill.name;
  if (editing) return <Edited name={address} onDone={() => setEditing(false)} />;
  return (
    <>
      {skill.shared_by && (
        <div className="mb-4 rounded-box bg-tint px-3 py-2">
          <OwnerNote share={skill} hint={words.skillNote} />
        </div>
      )}
      <Contents skill={skill}>
        {edits && skill.access === "write" && (
          <div className="mt-4">
            <Button onClick={() => setEditing(true)}>{strings.edit}</Button>
          </div>
        )}
        {own && (
          <>
            <OwnerButtons name={skill.name} onEdit={() => setEditing(true)} />
            <SkillSource name={skill.name} />
          </>
        )}
      </Contents>
      <SkillTests skill={skill} />
      {(own || (edits && skill.shared_by)) && <History name={address} isReadOnly={skill.access === "read"} />}
    </>
  );
}

/** Refetched because it may have changed elsewhere. */
function Edited({ name, onDone }: { name: string; onDone: () => void }) {
  const strings = useStrings();
  const server = useServer();
  const queries = useQueryClient();
  const custom = useQuery({
    queryKey: ["skills", name, "custom"],
    queryFn: () => server.customSkill(name),
    // Edits are kept; a newer text is loaded next time.
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  });
  if (custom.isPending) return <LoadingState />;
  if (custom.isError)
    return <ErrorState text={strings.skill.missing} onRetry={() => void custom.refetch()} />;
  const { content, sha256 } = custom.data;
  const save = async (text: string) => {
    await server.saveSkill(name, text, sha256);
    onDone();
    await queries.invalidateQueries({ queryKey: ["skills"] });
  };
  return <SkillEditor text={content} submitWord={strings.save} onSave={save} onCancel={onDone} />;
}

function History({ name, isReadOnly }: { name: string; isReadOnly: boolean }) {
  const { skill: strings } = useStrings();
  return (
    <section aria-label={strings.history} className="mt-6 border-t border-line pt-6">
      <h2 className="mb-2 text-title font-semibold">{strings.history}</h2>
      <SkillHistory name={name} isReadOnly={isReadOnly} />
    </section>
  );
}

function OwnerButtons({ name, onEdit }: { name: string; onEdit: () => void }) {
  const strings = useStrings();
  const server = useServer();
  const queries = useQueryClient();
  const navigate = useNavigate();
  const removal = useMutation({
    mutationFn: () => server.deleteSkill(name),
    onSuccess: async () => {
      await navigate({ to: "/skills", search: { deleted: name } });
      queries.removeQueries({ queryKey: ["skills", name] });
      await queries.invalidateQueries({ queryKey: ["skills"] });
    },
  });
  return (
    <div className="mt-4 flex items-center gap-2">
      <Button onClick={onEdit}>{strings.edit}</Button>
      <Button disabled={removal.isPending} onClick={() => removal.mutate()} className="text-error">
        {strings.skill.delete}
      </Button>
      {removal.isError && (
        <p role="alert" className="text-error">
          {sentence(removal.error.message)}
        </p>
      )}
    </div>
  );
}

function Contents({ skill, children }: { skill: SkillWithContent; children: ReactNode }) {
  const { skill: strings } = useStrings();
  const language = useLanguage();
  const facts = [
    [strings.license, skill.license],
    [strings.tools, skill.allowed_tools?.join(", ")],
  ].filter(([, value]) => value);
  return (
    <>
      <p className="text-prose text-soft [overflow-wrap:anywhere]">{useSkillText()(skill).description}</p>
      <dl className="mt-4 grid grid-cols-[auto_1fr] gap-x-4 gap-y-1 text-small">
        {facts.map(([name, value]) => (
          <div key={name} className="contents">
            <dt className="text-faint">{name}</dt>
            <dd className="[overflow-wrap:anywhere]">{value}</dd>
          </div>
        ))}
      </dl>
      {children}
      <article aria-label="SKILL.md" className="mt-6 border-t border-line pt-6">
        <Markdown text={bodyOf(skill.content)} growing={false} />
      </article>
      {skill.files.length > 1 && (
        <section aria-label={strings.files} className="mt-6 border-t border-line pt-6">
          <h2 className="mb-2 text-title font-semibold">{strings.files}</h2>
          <ul className="divide-y divide-line rounded-box border border-line">
            {skill.files.map(({ path, size }) => (
              <li key={path} className="flex items-center gap-3 px-4 py-2">
                <code className="min-w-0 flex-1 truncate font-mono text-small">{path}</code>
                <span className="text-small text-faint">{formatSize(size, language)}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

/** Return the body of a SKILL.md without its front matter. */
function bodyOf(content: string): string {
  return content.replace(/^\uFEFF?---\r?\n[\s\S]*?\n---[ \t]*(?:\r?\n|$)/, "");
}
