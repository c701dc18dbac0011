/** Strings of the dialog that shares a thread. Loaded with it. */

import { useLanguage } from "@/i18n/context";
import type { Language } from "@/i18n/i18n";

export const sharingStringsEn = {
  off: "Sharing is off on this server. To switch it on, add this to config.yaml:",
  offHint: "It applies without a restart. Links can then be read by anyone who can reach this server.",
  notRevoked: "Couldn’t revoke the link",
};

export const sharingStringsZh: typeof sharingStringsEn = {
  off: "此服务器未开启分享。要开启，请在 config.yaml 中添加：",
  offHint: "无需重启即可生效。之后，任何能访问此服务器的人都可以打开链接。",
  notRevoked: "无法撤销链接",
};

const STRINGS: Readonly<Record<Language, typeof sharingStringsEn>> = {
  en: sharingStringsEn,
  zh: sharingStringsZh,
};

export function useSharingStrings(): typeof sharingStringsEn {
  return STRINGS[useLanguage()];
}
