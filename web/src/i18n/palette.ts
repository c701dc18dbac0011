/** Strings of the command palette. Loaded with it. */

import { useLanguage } from "@/i18n/context";
import type { Language } from "@/i18n/i18n";

export const paletteStringsEn = {
  groups: { recent: "Threads", commands: "Commands", messages: "In messages" },
  switchModel: (name: string) => `Use model: ${name}`,
  project: (name: string) => `Project: ${name}`,
  switchMode: (name: string) => `Use mode: ${name}`,
  context: "Context and cost",
  writeMessage: "Write a message",
};

export const paletteStringsZh: typeof paletteStringsEn = {
  groups: { recent: "对话", commands: "命令", messages: "消息内容" },
  switchModel: (name: string) => `使用模型：${name}`,
  project: (name: string) => `项目：${name}`,
  switchMode: (name: string) => `使用模式：${name}`,
  context: "上下文和费用",
  writeMessage: "写消息",
};

const STRINGS: Readonly<Record<Language, typeof paletteStringsEn>> = {
  en: paletteStringsEn,
  zh: paletteStringsZh,
};

export function usePaletteStrings(): typeof paletteStringsEn {
  return STRINGS[useLanguage()];
}
