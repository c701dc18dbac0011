/** Strings for pasted MCP servers, trial calls of tools and tests of skills, loaded with their pages. */

import { useLanguage } from "@/i18n/context";
import type { Language } from "@/i18n/i18n";

export const trialStringsEn = {
  // Pasted servers
  startFrom: "Start from",
  templates: {
    filesystem: "Files of the thread",
    fetch: "Fetch",
    github: "GitHub",
    postgres: "Postgres",
    browser: "Browser",
    memory: "Memory",
  },
  preview: "Servers found",
  checking: "Checking…",
  replaces: "Replaces the server of this name",
  include: (name: string) => `Add ${name}`,
  addSome: (count: number) => (count === 1 ? "Add 1 server" : `Add ${count} servers`),

  // Tools of a server
  offer: (tool: string) => `Offer ${tool} to agents`,
  toolOff: "Off: agents don’t get it",
  tryTool: "Try",
  tryThis: (tool: string) => `Try ${tool}`,
  closeTrial: "Close",
  run: "Run",
  running: "Running…",
  approveAndRun: "Approve and run",
  asks: "The approval rules ask first:",
  denies: "The approval rules forbid this call:",
  trialFailed: "The call failed.",
  result: "Result",
  noResult: "The tool returned nothing.",
  truncated: "Only the beginning is shown.",
  noInputs: "This tool takes no input.",
  required: "required",
  json: "JSON",
  badJson: "Not valid JSON",
  badNumber: "Enter a number",
  needed: "Required",
  notSet: "Not set",
  took: (seconds: string) => `${seconds} s`,

  // Tests of a skill
  tests: "Tests",
  testsHint: "Run offline in the sandbox, with a scripted model. This can take a few minutes.",
  runTests: "Run tests",
  testing: "Running tests…",
  noTests: "This skill has no tests.",
  testsFailed: "Couldn’t run the tests.",
  passed: "Passed",
  failed: "Failed",
  summary: (passed: number, all: number) => `${passed} of ${all} passed`,
  outputs: "Last outputs",
};

export const trialStringsZh: typeof trialStringsEn = {
  startFrom: "从模板开始",
  templates: {
    filesystem: "对话文件",
    fetch: "网页抓取",
    github: "GitHub 代码",
    postgres: "Postgres 数据库",
    browser: "浏览器",
    memory: "记忆",
  },
  preview: "找到的服务器",
  checking: "正在检查…",
  replaces: "将替换同名服务器",
  include: (name) => `添加 ${name}`,
  addSome: (count) => `添加 ${count} 个服务器`,

  offer: (tool) => `向智能体提供 ${tool}`,
  toolOff: "已关闭：智能体不会使用",
  tryTool: "试用",
  tryThis: (tool) => `试用 ${tool}`,
  closeTrial: "关闭",
  run: "运行",
  running: "正在运行…",
  approveAndRun: "批准并运行",
  asks: "审批规则要求先确认：",
  denies: "审批规则禁止此调用：",
  trialFailed: "调用失败。",
  result: "结果",
  noResult: "工具没有返回内容。",
  truncated: "仅显示开头部分。",
  noInputs: "此工具无需输入。",
  required: "必填",
  json: "JSON 格式",
  badJson: "不是有效的 JSON",
  badNumber: "请输入数字",
  needed: "此项必填",
  notSet: "未设置",
  took: (seconds) => `${seconds} 秒`,

  tests: "测试",
  testsHint: "在沙盒中离线运行，使用脚本模型，可能需要几分钟。",
  runTests: "运行测试",
  testing: "正在测试…",
  noTests: "此技能没有测试。",
  testsFailed: "无法运行测试。",
  passed: "通过",
  failed: "未通过",
  summary: (passed, all) => `${all} 项中 ${passed} 项通过`,
  outputs: "最后的输出",
};

const STRINGS: Readonly<Record<Language, typeof trialStringsEn>> = {
  en: trialStringsEn,
  zh: trialStringsZh,
};

export function useTrialStrings(): typeof trialStringsEn {
  return STRINGS[useLanguage()];
}
