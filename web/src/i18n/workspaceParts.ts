/** Strings of parts of the workspace that are loaded on demand: context card, notifications, dictation, selection. */

import { useLanguage } from "@/i18n/context";
import type { Language } from "@/i18n/i18n";

export const workspacePartsEn = {
  writeMessage: "Write a message",
  notifications: "Notifications",
  notifyMe: "Notify me when a task is done or needs me",
  notifyHint: "Only while this tab is in the background.",
  notifyBlocked: "Your browser blocks notifications for this page. Allow them in its settings.",
  notifyUnsupported: "This browser has no notifications.",
  context: "Context",
  contextUsed: "Used",
  contextWindow: "Window",
  contextUnknown: "Unknown",
  spent: "Cost of this thread",
  summarizeNow: "Summarize now",
  summarizeHint: "Replaces earlier messages in the agent’s context by a summary. You still see them.",
  dictate: "Dictate",
  stopDictation: "Stop dictating",
  askAbout: "Ask about this",
  quote: "Quote",
  aside: "Side question",
  asideHint: "The answer knows this thread, but isn’t part of it.",
  asideQuestion: "Your question",
  askAside: "Ask",
  insertAnswer: "Insert into message",
  asideFailed: "Couldn’t get an answer",
  asideNeedsApproval: "The agent needs your approval for this. Ask it in the thread.",
  dictationFaults: {
    denied: "The microphone isn’t allowed for this page",
    failed: "Couldn’t recognize speech",
  },
};

export const workspacePartsZh: typeof workspacePartsEn = {
  writeMessage: "写消息",
  notifications: "通知",
  notifyMe: "任务完成或需要我时通知我",
  notifyHint: "仅当此标签页在后台时。",
  notifyBlocked: "浏览器阻止了此页面的通知。请在浏览器设置中允许。",
  notifyUnsupported: "此浏览器不支持通知。",
  context: "上下文",
  contextUsed: "已用",
  contextWindow: "窗口",
  contextUnknown: "未知",
  spent: "此对话的费用",
  summarizeNow: "立即总结",
  summarizeHint: "用摘要替换智能体上下文中较早的消息，你仍可看到这些消息。",
  dictate: "语音输入",
  stopDictation: "停止语音输入",
  askAbout: "就此提问",
  quote: "引用",
  aside: "旁问",
  asideHint: "回答参考此对话的内容，但不会进入对话。",
  asideQuestion: "你的问题",
  askAside: "提问",
  insertAnswer: "插入到消息",
  asideFailed: "无法获得回答",
  asideNeedsApproval: "此操作需要你的批准，请在对话中提问。",
  dictationFaults: {
    denied: "此页面无权使用麦克风",
    failed: "无法识别语音",
  },
};

const STRINGS: Readonly<Record<Language, typeof workspacePartsEn>> = {
  en: workspacePartsEn,
  zh: workspacePartsZh,
};

export function useWorkspaceParts(): typeof workspacePartsEn {
  return STRINGS[useLanguage()];
}
