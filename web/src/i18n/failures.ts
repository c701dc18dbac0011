/** Strings of failed runs: what happened and what to do about it. Loaded with them. */

import { useLanguage } from "@/i18n/context";
import type { Language } from "@/i18n/i18n";

export const failureStringsEn = {
  runErrors: {
    ModelKeyRejected: (model: string) => `The key for ${model} was rejected`,
    ModelQuotaExceeded: (model: string) => `The quota for ${model} is used up`,
    ModelNotFound: (model: string) => `${model} isn’t available at its provider`,
    ModelContextTooLong: (model: string) => `This thread is too long for ${model}`,
    ModelRateLimited: (model: string) => `${model} is receiving too many requests`,
    ModelUnavailable: (model: string) => `${model} isn’t responding`,
    ModelTimeout: (model: string) => `${model} isn’t responding`,
    ModelStreamCut: (model: string) => `The connection to ${model} was interrupted`,
  },
  runErrorHints: {
    ModelKeyRejected: "Check the key, or use another model.",
    ModelQuotaExceeded: "Add credit at the provider, or use another model.",
    ModelNotFound: "Check the model’s name in the settings, or choose another one.",
    ModelContextTooLong:
      "It was shortened, and still doesn’t fit. Replace earlier messages by a summary, or use a model with a larger context.",
    ModelRateLimited: "Wait a moment, then try again.",
    ModelUnavailable: "Try again, or use another model.",
    ModelTimeout: "Try again, or use another model.",
    ModelStreamCut: "Try again.",
  },
  errorDetails: "Details",
  updateKey: "Update key",
  useAnotherModel: "Use another model",
  modelSettings: "Model settings",
  summarizeAndRetry: "Summarize and retry",
  keyOf: (model: string) => `Key for ${model}`,
  keyInConfig: "This model is set up in the configuration of the server. Change its key there.",
};

export const failureStringsZh: typeof failureStringsEn = {
  runErrors: {
    ModelKeyRejected: (model: string) => `${model} 的密钥被拒绝`,
    ModelQuotaExceeded: (model: string) => `${model} 的额度已用完`,
    ModelNotFound: (model: string) => `服务商没有 ${model} 这个模型`,
    ModelContextTooLong: (model: string) => `此对话超出了 ${model} 的上下文长度`,
    ModelRateLimited: (model: string) => `${model} 的请求过于频繁`,
    ModelUnavailable: (model: string) => `${model} 没有响应`,
    ModelTimeout: (model: string) => `${model} 没有响应`,
    ModelStreamCut: (model: string) => `与 ${model} 的连接已中断`,
  },
  runErrorHints: {
    ModelKeyRejected: "请检查密钥，或换用其他模型。",
    ModelQuotaExceeded: "请在服务商处充值，或换用其他模型。",
    ModelNotFound: "请在设置中检查模型名称，或选择其他模型。",
    ModelContextTooLong: "缩短之后仍然放不下。请用摘要替换较早的消息，或换用上下文更长的模型。",
    ModelRateLimited: "请稍候再试。",
    ModelUnavailable: "请重试，或换用其他模型。",
    ModelTimeout: "请重试，或换用其他模型。",
    ModelStreamCut: "请重试。",
  },
  errorDetails: "详情",
  updateKey: "更新密钥",
  useAnotherModel: "换用其他模型",
  modelSettings: "模型设置",
  summarizeAndRetry: "总结后重试",
  keyOf: (model: string) => `${model} 的密钥`,
  keyInConfig: "此模型在服务器的配置中设置，请在那里修改密钥。",
};

const STRINGS: Readonly<Record<Language, typeof failureStringsEn>> = {
  en: failureStringsEn,
  zh: failureStringsZh,
};

export function useFailureStrings(): typeof failureStringsEn {
  return STRINGS[useLanguage()];
}
