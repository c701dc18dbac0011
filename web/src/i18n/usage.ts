/** Strings of the usage page, loaded with it. */

import { useLanguage } from "@/i18n/context";
import type { Language } from "@/i18n/i18n";

export const usageStringsEn = {
  usage: "Usage",
  unavailable: "Couldn’t load usage",
  thisMonth: "This month",
  last30: "Last 30 days",
  period: "Period",
  cost: "Cost",
  costUnknown: "Not all prices are known",
  unpriced: (tokens: string) => `${tokens} tokens without a price`,
  tokensIn: "Input tokens",
  tokensOut: "Output tokens",
  calls: "Model calls",
  cached: "From cache",
  byDay: "By day",
  byModel: "By model",
  byThread: "By thread",
  model: "Model",
  thread: "Thread",
  day: "Day",
  tokens: "Tokens",
  none: "Nothing used in this period",
  deletedThreads: "Deleted threads",
  dayUsage: (day: string, tokens: string, cost: string | null) =>
    cost === null ? `${day}: ${tokens} tokens` : `${day}: ${tokens} tokens, ${cost}`,
  monthlyBudget: "Monthly budget",
  spentToday: "Spent today",
  spentMonth: "Spent this month",
  left: "Left this month",
  over: "Over budget",
  limit: (currency: string) => `Limit per month (${currency})`,
  limitHint: "A reminder for you, kept in this browser. Runs are not stopped. Empty: no limit.",
  spentOf: (spent: string, limit: string) => `${spent} of ${limit} spent`,
  budget: "Budget per run",
  budgetNone: "No limit. Set `budget` in config.yaml to limit each run.",
  budgetHint: "Each run gets this much; it ends with an answer before the limit. Set in config.yaml.",
  maxTokens: (count: string) => `${count} tokens`,
};

export const usageStringsZh: typeof usageStringsEn = {
  usage: "用量",
  unavailable: "无法加载用量",
  thisMonth: "本月",
  last30: "最近 30 天",
  period: "时间范围",
  cost: "费用",
  costUnknown: "部分价格未知",
  unpriced: (tokens: string) => `${tokens} 个 Token 没有价格`,
  tokensIn: "输入 Token",
  tokensOut: "输出 Token",
  calls: "模型调用",
  cached: "缓存命中",
  byDay: "按天",
  byModel: "按模型",
  byThread: "按对话",
  model: "模型",
  thread: "对话",
  day: "日期",
  tokens: "Token 数",
  none: "此期间没有用量",
  deletedThreads: "已删除的对话",
  dayUsage: (day: string, tokens: string, cost: string | null) =>
    cost === null ? `${day}：${tokens} Token` : `${day}：${tokens} Token，${cost}`,
  monthlyBudget: "每月预算",
  spentToday: "今天已用",
  spentMonth: "本月已用",
  left: "本月剩余",
  over: "超出预算",
  limit: (currency: string) => `每月上限（${currency}）`,
  limitHint: "仅供提醒，保存在此浏览器中，不会停止运行。留空表示没有上限。",
  spentOf: (spent: string, limit: string) => `已用 ${spent}，共 ${limit}`,
  budget: "每次运行的预算",
  budgetNone: "没有限制。在 config.yaml 中设置 `budget` 可限制每次运行。",
  budgetHint: "每次运行最多使用这么多，并在达到上限前给出回答。在 config.yaml 中设置。",
  maxTokens: (count: string) => `${count} 个 Token`,
};

const STRINGS: Readonly<Record<Language, typeof usageStringsEn>> = { en: usageStringsEn, zh: usageStringsZh };

export function useUsageStrings(): typeof usageStringsEn {
  return STRINGS[useLanguage()];
}
