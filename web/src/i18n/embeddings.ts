/** Strings of the embedding model in the settings, loaded with them. */

import { useLanguage } from "@/i18n/context";
import type { Language } from "@/i18n/i18n";

export const embeddingStringsEn = {
  title: "Embeddings",
  none: "Project files are searched by words. With an embedding model, passages are also found by meaning.",
  unavailable: "Couldn’t load the embedding model",
  inUse: (model: string) => `In use: ${model}`,
  local: "Model on this machine",
  localHint: "Small and fast. Nothing is sent anywhere.",
  useLocal: "Use it",
  install: "Not installed. Run this command, then restart the server:",
  connect: "Connect a provider",
  provider: "Provider",
  address: "Address",
  addressHint: "For example http://127.0.0.1:11434/v1",
  key: "API key",
  keyHint: "Encrypted, and never shown again. Leave it empty for a server on this machine.",
  check: "Check",
  checking: "Checking …",
  model: "Embedding model",
  works: (model: string, dimensions: number) => `${model} works (${dimensions} dimensions).`,
  save: "Use this model",
  remove: "Remove",
  fromConfig: "Set in config.yaml. Change it there.",
  adminOnly: "Only an administrator can change it.",
  notChanged: "Nothing was changed.",
};

export const embeddingStringsZh: typeof embeddingStringsEn = {
  title: "嵌入模型",
  none: "项目文件按词语检索。连接嵌入模型后，还可以按含义查找段落。",
  unavailable: "无法加载嵌入模型",
  inUse: (model: string) => `使用中：${model}`,
  local: "本机模型",
  localHint: "小而快，不会发送任何数据。",
  useLocal: "使用",
  install: "尚未安装。运行以下命令，然后重启服务器：",
  connect: "连接提供商",
  provider: "提供商",
  address: "地址",
  addressHint: "例如 http://127.0.0.1:11434/v1",
  key: "API 密钥",
  keyHint: "加密保存，不会再次显示。本机服务器可以留空。",
  check: "检查",
  checking: "正在检查…",
  model: "嵌入模型",
  works: (model: string, dimensions: number) => `${model} 可用（${dimensions} 维）。`,
  save: "使用此模型",
  remove: "移除",
  fromConfig: "在 config.yaml 中设置，请在那里修改。",
  adminOnly: "只有管理员可以修改。",
  notChanged: "没有任何更改。",
};

const STRINGS: Readonly<Record<Language, typeof embeddingStringsEn>> = {
  en: embeddingStringsEn,
  zh: embeddingStringsZh,
};

export function useEmbeddingStrings(): typeof embeddingStringsEn {
  return STRINGS[useLanguage()];
}
