/** Strings of teams and of sharing with people. Loaded with the parts of the page that use them. */

import { useLanguage } from "@/i18n/context";
import type { Language } from "@/i18n/i18n";

const ACCESS = { read: "Can read", write: "Can read and write" };
const ROLES = { owner: "Owner", member: "Member" };

export const teamStringsEn = {
  people: "People and teams",
  shareHints: {
    thread:
      "People who can write start runs at their own cost. They see the files of the thread and its project, and your skills.",
    agent:
      "Others use the agent in their own threads, at their own cost. People who can write also change it.",
    skill: "Others use the skill after they have switched it on. People who can write also edit its files.",
  },
  agent: "Agent",
  skill: "Skill",
  off: "Off",
  hasEditors: "Others can change it",
  agentNote: "Runs with it use your models, memory, skills and logins.",
  skillNote: "It runs with your rights. Read it before you switch it on.",
  readOnly: (email: string) => `${email} shares this thread with you for reading only.`,
  noAccounts: "Teams need accounts. This server has none yet.",
  noAccountsGuide: "Require a login in the settings",
  with: "Share with",
  person: "A person",
  email: "E-mail address",
  access: "Access",
  accessOf: (name: string) => `Access of ${name}`,
  accesses: ACCESS,
  share: "Share",
  stop: (name: string) => `Stop sharing with ${name}`,
  sharedWith: "Shared with",
  links: "Public links",
  sharedWithMe: "Shared with me",
  sharedBy: (email: string) => `Shared by ${email}`,
  teams: "Teams",
  teamsHint: "Share threads, agents and skills with several people at once.",
  noTeams: "You are in no team.",
  name: "Name of the team",
  create: "Create team",
  role: "Role",
  roles: ROLES,
  members: (count: number) => (count === 1 ? "1 member" : `${count} members`),
  showMembers: "Members",
  membersOf: (name: string) => `Members of ${name}`,
  add: "Add",
  remove: "Remove",
  removeMember: (email: string) => `Remove ${email}`,
  leave: "Leave",
  delete: "Delete",
  confirmDelete: (name: string) => `Delete the team “${name}”? What is shared with it is no longer shared.`,
};

const ACCESS_ZH: typeof ACCESS = { read: "可查看", write: "可查看和编辑" };
const ROLES_ZH: typeof ROLES = { owner: "所有者", member: "成员" };

export const teamStringsZh: typeof teamStringsEn = {
  people: "人员和团队",
  shareHints: {
    thread: "可编辑的人自行承担运行费用，并能看到此会话及其项目的文件，以及你的技能。",
    agent: "其他人在自己的会话中使用此智能体，费用由他们承担。可编辑的人还能修改它。",
    skill: "其他人启用后即可使用此技能。可编辑的人还能修改其文件。",
  },
  agent: "智能体",
  skill: "技能",
  off: "未启用",
  hasEditors: "其他人也能修改",
  agentNote: "使用它的运行会用到你的模型、记忆、技能和登录。",
  skillNote: "它以你的权限运行。启用前请先阅读内容。",
  readOnly: (email) => `${email} 与你共享了此会话，你只能查看。`,
  noAccounts: "团队需要账户。此服务器还没有账户。",
  noAccountsGuide: "在设置中要求登录",
  with: "共享给",
  person: "个人",
  email: "邮箱地址",
  access: "权限",
  accessOf: (name) => `${name} 的权限`,
  accesses: ACCESS_ZH,
  share: "共享",
  stop: (name) => `停止与 ${name} 共享`,
  sharedWith: "已共享给",
  links: "公开链接",
  sharedWithMe: "与我共享",
  sharedBy: (email) => `由 ${email} 共享`,
  teams: "团队",
  teamsHint: "一次与多人共享会话、智能体和技能。",
  noTeams: "你不在任何团队中。",
  name: "团队名称",
  create: "创建团队",
  role: "角色",
  roles: ROLES_ZH,
  members: (count) => `${count} 名成员`,
  showMembers: "成员",
  membersOf: (name) => `${name} 的成员`,
  add: "添加",
  remove: "移除",
  removeMember: (email) => `移除 ${email}`,
  leave: "退出",
  delete: "删除",
  confirmDelete: (name) => `删除团队“${name}”？与它共享的内容将不再共享。`,
};

const STRINGS: Readonly<Record<Language, typeof teamStringsEn>> = { en: teamStringsEn, zh: teamStringsZh };

export function useTeamStrings(): typeof teamStringsEn {
  return STRINGS[useLanguage()];
}
