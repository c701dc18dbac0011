/** Items of the command palette. */

import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import {
  Bot,
  Brain,
  ChartColumn,
  Cpu,
  Ellipsis,
  Folder,
  Gauge,
  GraduationCap,
  Hourglass,
  Keyboard,
  Languages,
  type LucideIcon,
  MessageSquare,
  PanelLeft,
  PanelRight,
  Paperclip,
  PenLine,
  Settings,
  Share2,
  SlidersHorizontal,
  SquarePen,
  SunMoon,
  TextSearch,
  Wrench,
} from "lucide-react";
import { stripMarks } from "@/api/snippets";
import { useStrings } from "@/i18n/context";
import { LANGUAGE_NAMES, type Language } from "@/i18n/i18n";
import { usePaletteStrings } from "@/i18n/palette";
import { useToggleList } from "@/layout/useToggleList";
import { useActions, usePage } from "@/state/context";
import { modelName, useCurrentModel, useModels } from "@/state/models";
import { MODES } from "@/state/modes";
import { currentMode } from "@/state/page";
import type { Theme } from "@/state/preferences";
import { useFeature, useServer } from "@/state/server";
import { useThreads } from "@/state/threadList";
import { useChooseMode } from "@/state/useChooseMode";
import { useTogglePanel } from "@/state/usePanel";
import { useTextSearch } from "@/state/useTextSearch";
import { commandKey } from "@/ui/dom/commandKey";
import { focusComposer, hasComposer } from "@/ui/dom/composerFocus";
import { hasShortcut, pressShortcut } from "@/ui/dom/pressShortcut";

export interface Choice {
  readonly id: string;
  readonly icon: LucideIcon;
  readonly label: string;
  readonly note?: string;
  readonly keys?: readonly string[];
  readonly group: "recent" | "commands" | "messages";
  readonly run: () => void;
}

const MOST_THREADS = 8;
const MOST_RECENT = 5;

/** Return commands and threads that match, and threads with matching messages. */
export function useChoices(wanted: string): readonly Choice[] {
  const commands = useCommands();
  const threads = useThreadChoices();
  const { hits } = useTextSearch(wanted);
  const openThread = useOpenThread();
  const strings = useStrings();
  const sought = wanted.trim().toLocaleLowerCase();
  const named = ({ label }: Choice) => label.toLocaleLowerCase().includes(sought);
  const found = hits.map((hit) => ({
    id: `hit ${hit.thread_id} ${hit.message_id}`,
    icon: TextSearch,
    label: hit.title ?? strings.untitled,
    note: stripMarks(hit).snippet,
    group: "messages" as const,
    run: () => openThread(hit.thread_id),
  }));
  if (sought === "") return [...threads.slice(0, MOST_RECENT), ...commands];
  return [...threads.filter(named).slice(0, MOST_THREADS), ...commands.filter(named), ...found];
}

function useOpenThread(): (threadId: string) => void {
  const navigate = useNavigate();
  return (threadId) => void navigate({ to: "/threads/$threadId", params: { threadId } });
}

function useThreadChoices(): readonly Choice[] {
  const strings = useStrings();
  const openThread = useOpenThread();
  const threads = useThreads();
  if (threads.phase !== "ready") return [];
  return threads.value.map((thread) => ({
    id: thread.id,
    icon: MessageSquare,
    label: thread.title ?? strings.untitled,
    group: "recent",
    run: () => openThread(thread.id),
  }));
}

function useCommands(): readonly Choice[] {
  const places = usePlaces();
  const doings = useThreadCommands();
  const looks = useLooks();
  return [...doings, ...places, ...looks].map((choice) => ({ ...choice, group: "commands" }));
}

type Command = Omit<Choice, "group">;

/** Commands of the open thread and the next message. */
function useThreadCommands(): readonly Command[] {
  const strings = useStrings();
  const palette = usePaletteStrings();
  const navigate = useNavigate();
  const actions = useActions();
  const toggleList = useToggleList();
  const togglePanel = useTogglePanel();
  const current = useCurrentModel();
  const models = useModels();
  const inThread = usePage((page) => page.threadId !== null);
  const nextMessage = useNextMessage();
  const command = commandKey(navigator.platform);
  const others =
    models.phase === "ready" ? models.value.models.filter(({ name }) => name !== current?.name) : [];
  const ofThread: readonly Command[] = [
    { id: "panel", icon: PanelRight, label: strings.togglePanel, keys: [command, "."], run: togglePanel },
    { id: "share", icon: Share2, label: strings.share, keys: [command, "Shift", "L"], run: press("share") },
    {
      id: "thread",
      icon: Ellipsis,
      label: strings.workspace.actions,
      keys: [command, "/"],
      run: press("thread"),
    },
    {
      id: "context",
      icon: Gauge,
      label: palette.context,
      keys: [command, "Shift", "Y"],
      run: press("context"),
    },
  ];
  return [
    {
      id: "new",
      icon: SquarePen,
      label: strings.newThread,
      keys: [command, "Shift", "O"],
      run: () => void navigate({ to: "/" }),
    },
    {
      id: "temporary",
      icon: Hourglass,
      label: strings.workspace.temporary,
      run: () => void actions.open(null).then(() => actions.startTemporary(true)),
    },
    ...(inThread ? ofThread : []),
    { id: "list", icon: PanelLeft, label: strings.toggleList, keys: [command, "B"], run: toggleList },
    ...nextMessage,
    ...others.map((model) => ({
      id: `model ${model.name}`,
      icon: Cpu,
      label: palette.switchModel(modelName(model)),
      run: () => actions.prefer({ model: model.name }),
    })),
  ];
}

/** Commands of the message field, where there is one. */
function useNextMessage(): readonly Command[] {
  const strings = useStrings();
  const palette = usePaletteStrings();
  const mode = usePage(currentMode);
  const chooseMode = useChooseMode();
  if (!hasComposer()) return [];
  const attach = { id: "attach", icon: Paperclip, label: strings.attachFiles, run: press("attach") };
  return [
    {
      id: "write",
      icon: PenLine,
      label: palette.writeMessage,
      keys: ["/"],
      run: afterClosing(focusComposer),
    },
    ...(hasShortcut("attach") ? [attach] : []),
    ...MODES.filter((other) => other !== mode).map((other) => ({
      id: `mode ${other}`,
      icon: SlidersHorizontal,
      label: palette.switchMode(strings.modes[other].name),
      run: () => chooseMode(other),
    })),
  ];
}

/** Pages. */
function usePlaces(): readonly Command[] {
  const strings = useStrings();
  const palette = usePaletteStrings();
  const navigate = useNavigate();
  const server = useServer();
  const projects = useQuery({ queryKey: ["projects"], queryFn: server.projects });
  const hasSkills = useFeature("skills");
  const hasMemory = useFeature("memory");
  const hasTools = useFeature("mcp");
  const command = commandKey(navigator.platform);
  const page = (
    id: string,
    icon: LucideIcon,
    to: "/agents" | "/skills" | "/memory" | "/tools" | "/usage",
    label: string,
  ): Command => ({ id, icon, label, run: () => void navigate({ to }) });
  return [
    page("agents", Bot, "/agents", strings.agents),
    ...(hasSkills ? [page("skills", GraduationCap, "/skills", strings.skills)] : []),
    ...(hasMemory ? [page("memory", Brain, "/memory", strings.memory)] : []),
    ...(hasTools ? [page("tools", Wrench, "/tools", strings.tools)] : []),
    page("usage", ChartColumn, "/usage", strings.workspace.usage),
    ...(projects.data ?? []).map((project) => ({
      id: `project ${project.project_id}`,
      icon: Folder,
      label: palette.project(project.name),
      run: () => void navigate({ to: "/projects/$projectId", params: { projectId: project.project_id } }),
    })),
    {
      id: "settings",
      icon: Settings,
      label: strings.settings,
      keys: [command, ","],
      run: () => void navigate({ to: "/settings" }),
    },
    {
      id: "keys",
      icon: Keyboard,
      label: strings.keyboard,
      keys: ["?"],
      run: () => void navigate({ to: "/settings", hash: "keyboard" }),
    },
  ];
}

/** Theme and language. */
function useLooks(): readonly Command[] {
  const strings = useStrings();
  const actions = useActions();
  const themes: Readonly<Record<Theme, string>> = {
    system: strings.themeSystem,
    light: strings.themeLight,
    dark: strings.themeDark,
  };
  return [
    ...(Object.keys(themes) as Theme[]).map((theme) => ({
      id: `theme ${theme}`,
      icon: SunMoon,
      label: strings.themeIs(themes[theme]),
      run: () => actions.prefer({ theme }),
    })),
    ...(Object.keys(LANGUAGE_NAMES) as Language[]).map((language) => ({
      id: `language ${language}`,
      icon: Languages,
      label: strings.languageIs(LANGUAGE_NAMES[language]),
      run: () => actions.prefer({ language }),
    })),
  ];
}

/** Press a button of the page after the palette has closed. */
function press(name: string): () => void {
  return afterClosing(() => pressShortcut(name));
}

/** The palette returns the focus when it closes. */
function afterClosing(run: () => void): () => void {
  return () => void setTimeout(run);
}
