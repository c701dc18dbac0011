/** Strings of permissions: what a user allows in a thread. Loaded with approvals. */

import { useLanguage } from "@/i18n/context";
import type { Language } from "@/i18n/i18n";

export const approvalStringsEn = {
  allowInThread: "Allow in this thread",
  allowedInThread: "Allowed in this thread",
  scope: (runs: string) => `Allow in this thread: ${runs}`,
  scopes: {
    hosts: (tool: string, hosts: string) =>
      `later calls of ${tool} to ${hosts} run without asking, with any path and data. Other hosts still ask.`,
    commands:
      "all later commands of this thread run without asking, also if untrusted content was read before.",
    tool: (tool: string) =>
      `later calls of ${tool} in this thread run without asking, with any input, also if untrusted content was read before.`,
  },
  permissions: "Allowed tools",
  permissionsHint: "These calls run in this thread without asking. A branch of the thread asks again.",
  noPermissions: "Nothing is allowed yet. Choose “Allow in this thread” when the agent asks for approval.",
  permissionsUnavailable: "Couldn’t load what is allowed",
  onlyHosts: (hosts: string) => `Only ${hosts}`,
  anyInput: "Any input",
  granted: (when: string) => `Allowed ${when}`,
  revoke: (tool: string) => `Revoke ${tool}`,
  revokeWord: "Revoke",
  notRevoked: "Couldn’t revoke it",
};

export type ApprovalStrings = typeof approvalStringsEn;

export const approvalStringsZh: ApprovalStrings = {
  allowInThread: "在此对话中允许",
  allowedInThread: "已在此对话中允许",
  scope: (runs: string) => `在此对话中允许：${runs}`,
  scopes: {
    hosts: (tool: string, hosts: string) =>
      `之后对 ${hosts} 的 ${tool} 调用（任意路径和数据）不再询问，其他主机仍会询问。`,
    commands: "此对话之后的所有命令都不再询问，即使之前读取过不受信任的内容。",
    tool: (tool: string) => `此对话之后对 ${tool} 的调用（任意输入）不再询问，即使之前读取过不受信任的内容。`,
  },
  permissions: "已允许的工具",
  permissionsHint: "这些调用在此对话中无需询问即可运行。从此对话创建的分支会重新询问。",
  noPermissions: "还没有允许任何调用。智能体请求批准时，可选择“在此对话中允许”。",
  permissionsUnavailable: "无法加载已允许的内容",
  onlyHosts: (hosts: string) => `仅限 ${hosts}`,
  anyInput: "任意输入",
  granted: (when: string) => `允许于${when}`,
  revoke: (tool: string) => `撤销 ${tool}`,
  revokeWord: "撤销",
  notRevoked: "无法撤销",
};

const STRINGS: Readonly<Record<Language, ApprovalStrings>> = {
  en: approvalStringsEn,
  zh: approvalStringsZh,
};

export function useApprovalStrings(): ApprovalStrings {
  return STRINGS[useLanguage()];
}
