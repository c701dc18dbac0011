/** Items of the command palette. */

import { useNavigate } from "@tanstack/react-router";
import {
  Bot,
  Brain,
  GraduationCap,
  Languages,
  type LucideIcon,
  MessageSquare,
  PanelLeft,
  PanelRight,
  Settings,
  SquarePen,
  SunMoon,
  TextSearch,
  Wrench,
} from "lucide-react";
import { useStrings } from "@/i18n/context";
import { LANGUAGE_NAMES, type Language } from "@/i18n/i18n";
import { useToggleList } from "@/layout/useToggleList";
import { useActions, usePage } from "@/state/context";
import type { Theme } from "@/state/preferences";
import { useFeature } from "@/state/server";
import { useThreads } from "@/state/threadList";
import { useTogglePanel } from "@/state/usePanel";
import { useTextSearch } from "@/state/useTextSearch";

export interface Choice {
  readonly id: string;
  readonly icon: LucideIcon;
  readonly label: string;
  readonly note?: string;
  readonly run: () => void;
}

const MOST_THREADS = 8;

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
    note: hit.snippet,
    run: () => openThread(hit.thread_id),
  }));
  const titles = threads.filter(named).slice(0, MOST_THREADS);
  // Commands come first until something is typed, then threads.
  return sought === "" ? [...commands, ...titles] : [...titles, ...commands.filter(named), ...found];
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
    run: () => openThread(thread.id),
  }));
}

function useCommands(): readonly Choice[] {
  const strings = useStrings();
  const navigate = useNavigate();
  const actions = useActions();
  const toggleList = useToggleList();
  const togglePanel = useTogglePanel();
  const hasSkills = useFeature("skills");
  const hasMemory = useFeature("memory");
  const hasTools = useFeature("mcp");
  const inThread = usePage((page) => page.threadId !== null);
  const themes: Readonly<Record<Theme, string>> = {
    system: strings.themeSystem,
    light: strings.themeLight,
    dark: strings.themeDark,
  };
  const skills = {
    id: "skills",
    icon: GraduationCap,
    label: strings.skills,
    run: () => void navigate({ to: "/skills" }),
  };
  const memory = {
    id: "memory",
    icon: Brain,
    label: strings.memory,
    run: () => void navigate({ to: "/memory" }),
  };
  const tools = {
    id: "tools",
    icon: Wrench,
    label: strings.tools,
    run: () => void navigate({ to: "/tools" }),
  };
  const panel = { id: "panel", icon: PanelRight, label: strings.togglePanel, run: togglePanel };
  return [
    { id: "new", icon: SquarePen, label: strings.newThread, run: () => void navigate({ to: "/" }) },
    { id: "list", icon: PanelLeft, label: strings.toggleList, run: toggleList },
    ...(inThread ? [panel] : []),
    { id: "agents", icon: Bot, label: strings.agents, run: () => void navigate({ to: "/agents" }) },
    ...(hasSkills ? [skills] : []),
    ...(hasMemory ? [memory] : []),
    ...(hasTools ? [tools] : []),
    {
      id: "settings",
      icon: Settings,
      label: strings.settings,
      run: () => void navigate({ to: "/settings" }),
    },
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
