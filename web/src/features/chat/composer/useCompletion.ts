/** Completion state of the composer. */

import { useQuery } from "@tanstack/react-query";
import { type KeyboardEvent, useEffect, useState } from "react";
import {
  type Candidate,
  completed,
  fileCandidates,
  type Mention,
  matching,
  mentionAt,
  skillCandidates,
} from "@/features/chat/composer/completion";
import { useLanguage, useStrings } from "@/i18n/context";
import { COMMANDS } from "@/state/commands";
import { useActions, useFiles, usePage } from "@/state/context";
import { modelName, useModels } from "@/state/models";
import { useFeature, useServer } from "@/state/server";

interface Completion {
  readonly kind: Mention["kind"];
  readonly candidates: readonly Candidate[];
  readonly current: number;
  /** Update for the text and caret. */
  readonly update: (text: string, caret: number) => void;
  /** Handle a key; returns true if the list used it. */
  readonly takesKey: (event: KeyboardEvent<HTMLTextAreaElement>) => boolean;
  readonly choose: (candidate: Candidate) => void;
}

export function useCompletion(text: string, write: (text: string, caret: number) => void): Completion {
  const [mention, setMention] = useState<(Mention & { readonly caret: number }) | null>(null);
  const [current, setCurrent] = useState(0);
  const files = useMentionedFiles(mention?.kind === "file" ? mention.query : null);
  const named = mention?.kind === "skill" ? mention.query : null;
  const models = useMentionedModels(mention?.kind === "model" ? mention.query : null);
  const candidates = [...files, ...models, ...useCommands(named), ...useMentionedSkills(named)];
  const choose = (candidate: Candidate) => {
    setMention(null);
    if (candidate.run !== undefined) {
      write("", 0);
      return candidate.run();
    }
    if (mention === null) return;
    const [next, caret] = completed(text, mention.caret, mention, candidate.text);
    write(next, caret);
    const following = mentionAt(next, caret);
    if (following !== null) setMention({ ...following, caret });
  };

  return {
    kind: mention?.kind ?? "file",
    candidates,
    current: Math.min(current, Math.max(candidates.length - 1, 0)),
    choose,

    update(text, caret) {
      const found = mentionAt(text, caret);
      setMention(found === null ? null : { ...found, caret });
      setCurrent(0);
    },

    takesKey(event) {
      const at = Math.min(current, candidates.length - 1);
      const chosen = candidates[at];
      if (chosen === undefined) return false;
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step !== undefined) setCurrent((at + step + candidates.length) % candidates.length);
      // Enter sends a completed skill name.
      else if (event.key === "Enter" && chosen.text === text) return false;
      else if (event.key === "Enter" || event.key === "Tab") choose(chosen);
      else if (event.key === "Escape") setMention(null);
      else return false;
      event.preventDefault();
      return true;
    },
  };
}

/** Return files that match a query; null disables the request. */
function useMentionedFiles(query: string | null): readonly Candidate[] {
  const files = useFiles();
  const offered = useFeature("uploads");
  const threadId = usePage((page) => page.threadId);
  const artifacts = usePage(({ conversation }) => conversation.artifacts);
  const [uploads, setUploads] = useState<readonly string[]>([]);
  const mentions = query !== null;

  useEffect(() => {
    if (!offered || !mentions || threadId === null) return;
    // If uploads cannot be listed, presented files still can be mentioned.
    files.uploads(threadId).then(
      (found) => setUploads(found.map(({ path }) => path)),
      () => undefined,
    );
  }, [files, threadId, mentions, offered]);

  return query === null ? [] : fileCandidates([...uploads, ...artifacts], query);
}

/** Commands handled by the page. */
function useCommands(query: string | null): readonly Candidate[] {
  const { memoryNote, workspace } = useStrings();
  const actions = useActions();
  const offered = useFeature("memory");
  const created = usePage((page) => page.threadId !== null);
  const run = { compact: () => void actions.compact(), new: () => void actions.open(null) };
  const own = COMMANDS.filter((name) => created || (name !== "compact" && name !== "new")).map((name) => ({
    ...commandCandidate(name, workspace.commandNotes[name]),
    ...((name === "compact" || name === "new") && { run: run[name] }),
  }));
  const all = [...own, ...(offered ? [commandCandidate("memory", memoryNote)] : [])];
  return query === null ? [] : matching(all, query, all.length);
}

function commandCandidate(name: string, note: string): Candidate {
  return { id: `/${name}`, label: `/${name}`, note, text: `/${name}`, isCommand: true };
}

/** Models that match; choosing one uses it. */
function useMentionedModels(query: string | null): readonly Candidate[] {
  const actions = useActions();
  const models = useModels();
  if (query === null || models.phase !== "ready") return [];
  const all = models.value.models.map((model) => ({
    id: model.name,
    label: modelName(model),
    note: model.description ?? "",
    text: model.name,
    isCommand: true,
    run: () => actions.prefer({ model: model.name }),
  }));
  return matching(all, query, all.length);
}

function useMentionedSkills(query: string | null): readonly Candidate[] {
  const server = useServer();
  const offered = useFeature("skills");
  const skills = useQuery({
    queryKey: ["skills"],
    queryFn: server.skills,
    enabled: offered && query !== null,
  });
  // Names and descriptions in the language of the page, as the skill pages show them.
  const language = useLanguage();
  const texts = useQuery({
    queryKey: ["skill-texts"],
    queryFn: async () => (await import("@/i18n/skillTexts")).SKILL_TEXTS_ZH,
    enabled: language === "zh" && query !== null,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const listed = (skills.data?.skills ?? []).map((skill) => {
    const own = language === "zh" && skill.category === "public" ? texts.data?.[skill.name] : undefined;
    return own === undefined ? skill : { ...skill, description: own.join(" · ") };
  });
  return query === null ? [] : skillCandidates(listed, query);
}
