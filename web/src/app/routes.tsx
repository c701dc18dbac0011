/** Routes. */

import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  type RouterHistory,
} from "@tanstack/react-router";
import { App } from "@/app/App";
import { ErrorPage } from "@/app/ErrorPage";
import { NotFound } from "@/app/NotFound";
import { ThreadPage } from "@/app/ThreadPage";
import { serverSearch, toolsSearch } from "@/features/tools/search";
import { memorySearch } from "@/state/memorySearch";
import { panelSearch } from "@/state/panelSearch";

const root = createRootRoute({ component: App, notFoundComponent: NotFound });

// A shared parent route keeps the page mounted when a new thread gets its id.
const workbench = createRoute({ getParentRoute: () => root, id: "workbench", component: ThreadPage });
const start = createRoute({ getParentRoute: () => workbench, path: "/" });
const thread = createRoute({
  getParentRoute: () => workbench,
  path: "/threads/$threadId",
  validateSearch: panelSearch,
});

const agents = createRoute({
  getParentRoute: () => root,
  path: "/agents",
  component: lazyRouteComponent(() => import("@/features/agents/AgentsPage"), "AgentsPage"),
});
const agent = createRoute({
  getParentRoute: () => root,
  path: "/agents/$name",
  component: lazyRouteComponent(() => import("@/features/agents/AgentPage"), "AgentPage"),
});
const skills = createRoute({
  getParentRoute: () => root,
  path: "/skills",
  // Name of the skill just deleted, for undo.
  validateSearch: ({ deleted }): { deleted?: string } => (typeof deleted === "string" ? { deleted } : {}),
  component: lazyRouteComponent(() => import("@/features/skills/SkillsPage"), "SkillsPage"),
});
const newSkill = createRoute({
  getParentRoute: () => root,
  path: "/skills/_new",
  component: lazyRouteComponent(() => import("@/features/skills/NewSkillPage"), "NewSkillPage"),
});
const skill = createRoute({
  getParentRoute: () => root,
  path: "/skills/$name",
  component: lazyRouteComponent(() => import("@/features/skills/SkillPage"), "SkillPage"),
});
const project = createRoute({
  getParentRoute: () => root,
  path: "/projects/$projectId",
  component: lazyRouteComponent(() => import("@/features/projects/ProjectPage"), "ProjectPage"),
});
const projectFile = createRoute({
  getParentRoute: () => root,
  path: "/projects/$projectId/files/$fileId",
  // Number of the cited passage.
  validateSearch: ({ passage }): { passage?: number } =>
    Number(passage) >= 1 ? { passage: Number(passage) } : {},
  component: lazyRouteComponent(() => import("@/features/projects/FilePage"), "FilePage"),
});
const memory = createRoute({
  getParentRoute: () => root,
  path: "/memory",
  validateSearch: memorySearch,
  component: lazyRouteComponent(() => import("@/features/memory/MemoryPage"), "MemoryPage"),
});
const tools = createRoute({
  getParentRoute: () => root,
  path: "/tools",
  validateSearch: toolsSearch,
  component: lazyRouteComponent(() => import("@/features/tools/ToolsPage"), "ToolsPage"),
});
const mcpServer = createRoute({
  getParentRoute: () => root,
  path: "/tools/$server",
  validateSearch: serverSearch,
  component: lazyRouteComponent(() => import("@/features/tools/ServerPage"), "ServerPage"),
});
const usage = createRoute({
  getParentRoute: () => root,
  path: "/usage",
  component: lazyRouteComponent(() => import("@/features/usage/UsagePage"), "UsagePage"),
});
const settings = createRoute({
  getParentRoute: () => root,
  path: "/settings",
  component: lazyRouteComponent(() => import("@/features/settings/SettingsPage"), "SettingsPage"),
});
const channels = createRoute({
  getParentRoute: () => root,
  path: "/channels",
  component: lazyRouteComponent(() => import("@/features/settings/channels/ChannelsPage"), "ChannelsPage"),
});
const account = createRoute({
  getParentRoute: () => root,
  path: "/account",
  component: lazyRouteComponent(() => import("@/features/settings/account/AccountPage"), "AccountPage"),
});
const users = createRoute({
  getParentRoute: () => root,
  path: "/users",
  component: lazyRouteComponent(() => import("@/features/settings/account/UsersPage"), "UsersPage"),
});
const teams = createRoute({
  getParentRoute: () => root,
  path: "/teams",
  component: lazyRouteComponent(() => import("@/features/settings/account/TeamsPage"), "TeamsPage"),
});
const audit = createRoute({
  getParentRoute: () => root,
  path: "/audit",
  component: lazyRouteComponent(() => import("@/features/settings/account/AuditPage"), "AuditPage"),
});

const routeTree = root.addChildren([
  workbench.addChildren([start, thread]),
  agents,
  agent,
  skills,
  newSkill,
  skill,
  project,
  projectFile,
  memory,
  tools,
  mcpServer,
  usage,
  settings,
  channels,
  account,
  users,
  teams,
  audit,
]);

export function createAppRouter(history: RouterHistory) {
  return createRouter({ routeTree, history, defaultErrorComponent: ErrorPage });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof createAppRouter>;
  }
}
