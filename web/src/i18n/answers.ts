/** Strings below an answer: rating, usage and sources. Loaded with them. */

import { useLanguage } from "@/i18n/context";
import type { Language } from "@/i18n/i18n";

/** State of a source: compared with the saved page, or only known to have been read. */
export type SourceState =
  | "verified"
  | "quote_missing"
  | "number_mismatch"
  | "never_fetched"
  | "dead"
  | "read"
  | "unread"
  | "found"
  | "not_found";

export const answerStringsEn = {
  good: "Good response",
  bad: "Bad response",
  commentLabel: "Comment (optional)",
  commentGood: "What was good?",
  commentBad: "What was wrong?",
  saveComment: "Save",
  skipComment: "No comment",
  editComment: "Edit comment",
  notRated: "Couldn’t save your rating",
  usage: "Usage of this response",
  tokensUsed: (input: string, output: string) => `${input} in · ${output} out`,
  cachedShare: (percent: string) => `${percent} cached`,
  usageUnknown: "Usage unknown",
  sources: (count: number) => (count === 1 ? "1 source" : `${count} sources`),
  sourceStates: {
    verified: "Verified",
    quote_missing: "Quote not found",
    number_mismatch: "Number not found",
    never_fetched: "Page was not read",
    dead: "Page couldn’t be read",
    read: "Not checked",
    unread: "Page was not read",
    found: "Passage found",
    not_found: "Not among the passages found",
  } satisfies Record<SourceState, string>,
  savedCopy: "Saved copy",
  projectFile: "Project file",
};

export const answerStringsZh: typeof answerStringsEn = {
  good: "回答有帮助",
  bad: "回答有问题",
  commentLabel: "评论（可选）",
  commentGood: "哪里做得好？",
  commentBad: "哪里有问题？",
  saveComment: "保存",
  skipComment: "不评论",
  editComment: "编辑评论",
  notRated: "无法保存评价",
  usage: "本次回答的用量",
  tokensUsed: (input: string, output: string) => `输入 ${input} · 输出 ${output}`,
  cachedShare: (percent: string) => `缓存 ${percent}`,
  usageUnknown: "用量未知",
  sources: (count: number) => `${count} 个来源`,
  sourceStates: {
    verified: "已核实",
    quote_missing: "未找到引文",
    number_mismatch: "未找到数字",
    never_fetched: "未读取该网页",
    dead: "无法读取该网页",
    read: "未核查",
    unread: "未读取该网页",
    found: "已找到段落",
    not_found: "不在检索到的段落中",
  },
  savedCopy: "已保存的副本",
  projectFile: "项目文件",
};

const STRINGS: Readonly<Record<Language, typeof answerStringsEn>> = {
  en: answerStringsEn,
  zh: answerStringsZh,
};

export function useAnswerStrings(): typeof answerStringsEn {
  return STRINGS[useLanguage()];
}
