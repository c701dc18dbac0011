/** Strings of the page of chat apps, loaded with it. */

import { useLanguage } from "@/i18n/context";
import type { Language } from "@/i18n/i18n";

const SOURCES = { config: "From config.yaml", page: "Connected on the page" };

export const channelStringsEn = {
  title: "Chat apps",
  hint: "Use the agent in a chat app.",
  none: "No chat app is connected.",
  noneHint: "An administrator can connect one here or in config.yaml.",
  unavailable: "The chat apps could not be loaded.",
  apps: "Connected chat apps",
  sources: SOURCES,
  overridden: "Not used: config.yaml has this chat app too, and wins.",
  unreadable: "The saved settings cannot be decrypted. Enter them again.",
  stopped: "No server is connected.",
  connecting: "Connecting…",
  connectedAs: (bot: string) => `Connected as @${bot}`,
  since: "since",
  failed: "Not connected.",
  lastError: "Last error:",
  counts: (received: number, sent: number) => `${received} received, ${sent} sent`,
  restart: "Restart",
  restarting: "A new connection is being opened.",
  test: "Send test message",
  sent: "The message is being sent.",
  remove: "Disconnect",
  removeSure: (app: string) => `Disconnect ${app} and delete its settings?`,
  connectMine: "Connect my account",
  codeHint: (app: string) => `Send this to the bot in ${app}, in a private chat. It works once.`,
  expires: "Valid for ten minutes, until",
  accounts: "My chat accounts",
  noAccounts: "You have connected no chat account.",
  disconnect: "Disconnect",
  disconnectAccount: (name: string) => `Disconnect ${name}`,
  connect: "Connect a chat app",
  app: "Chat app",
  optional: "Optional.",
  check: "Check",
  checking: "Checking…",
  works: (bot: string) => `The settings work: @${bot}`,
  save: "Connect",
  secretHint: "Stored encrypted and never shown again.",
  configured: (app: string) => `${app} is in config.yaml; change it there.`,
  open: "Manage chat apps",
};

const SOURCES_ZH: typeof SOURCES = { config: "来自 config.yaml", page: "在网页中连接" };

export const channelStringsZh: typeof channelStringsEn = {
  title: "聊天应用",
  hint: "在聊天应用中使用智能体。",
  none: "尚未连接聊天应用。",
  noneHint: "管理员可以在此处或 config.yaml 中连接。",
  unavailable: "无法加载聊天应用。",
  apps: "已连接的聊天应用",
  sources: SOURCES_ZH,
  overridden: "未使用：config.yaml 中也有此聊天应用，以其为准。",
  unreadable: "无法解密已保存的设置，请重新输入。",
  stopped: "没有服务器与其连接。",
  connecting: "正在连接…",
  connectedAs: (bot) => `已连接为 @${bot}`,
  since: "自",
  failed: "未连接。",
  lastError: "最近的错误：",
  counts: (received, sent) => `收到 ${received} 条，发出 ${sent} 条`,
  restart: "重新连接",
  restarting: "正在建立新的连接。",
  test: "发送测试消息",
  sent: "正在发送消息。",
  remove: "断开",
  removeSure: (app) => `断开 ${app} 并删除其设置？`,
  connectMine: "连接我的账号",
  codeHint: (app) => `在 ${app} 的私聊中发送给机器人。仅可使用一次。`,
  expires: "十分钟内有效，至",
  accounts: "我的聊天账号",
  noAccounts: "你尚未连接聊天账号。",
  disconnect: "断开",
  disconnectAccount: (name) => `断开 ${name}`,
  connect: "连接聊天应用",
  app: "聊天应用",
  optional: "可选。",
  check: "检查",
  checking: "正在检查…",
  works: (bot) => `设置可用：@${bot}`,
  save: "连接",
  secretHint: "加密保存，不再显示。",
  configured: (app) => `${app} 在 config.yaml 中，请在那里修改。`,
  open: "管理聊天应用",
};

const STRINGS: Readonly<Record<Language, typeof channelStringsEn>> = {
  en: channelStringsEn,
  zh: channelStringsZh,
};

export function useChannelStrings(): typeof channelStringsEn {
  return STRINGS[useLanguage()];
}
