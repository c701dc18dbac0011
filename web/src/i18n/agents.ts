/** Strings of the agent pages and of an agent's start page, loaded with them. */

import { useLanguage } from "@/i18n/context";
import type { Language } from "@/i18n/i18n";

export const agentStringsEn = {
  design: "Let’s design your agent",
  designQuestion:
    "What should it do for you? Describe the work in a sentence or two. You’ll be asked about tone, tools and limits next.",
  designExamples: "Examples",
  designs: [
    {
      title: "A weekly news digest",
      prompt:
        "An agent that researches news about a topic each week and writes a one-page digest with sources.",
    },
    {
      title: "A careful editor",
      prompt:
        "An agent that edits my drafts: clearer sentences, same meaning, and a list of what it changed and why.",
    },
    {
      title: "A data analyst",
      prompt:
        "An agent that analyses CSV files I upload, draws charts and explains the results in plain words.",
    },
  ],
  startWith: (name: string) => `Chat with ${name}`,
  agentStarters: "Examples of this agent",
  editAgent: "Edit agent",
  unavailable: "Couldn’t load the description of this agent. You can chat with it anyway.",
  instructions: "Instructions",
  instructionsHint: "Role, tone, way of working and limits, in Markdown. Stored as SOUL.md.",
  tools: "Tools",
  allTools: "All tools",
  allToolsHint: "Includes tools that are added later. Untick to choose.",
  toolsUnavailable: "Couldn’t load the tools. The selection is kept as it is.",
  noTools: "Only the tools that every agent has, such as asking a question.",
  skills: "Skills",
  allSkills: "All skills that are turned on",
  allSkillsHint: "Untick to choose.",
  skillsUnavailable: "Couldn’t load the skills. The selection is kept as it is.",
  noSkills: "No skills.",
  off: "turned off",
  missing: "not available",
  groups: {
    bash: "Run commands",
    "file:read": "Read files",
    "file:write": "Write and edit files",
    web: "Search and read the web",
    mcp: "All MCP servers",
    acp: "Other agents (ACP)",
  } as Readonly<Record<string, string>>,
  serverGroup: (server: string) => `MCP server ${server}`,
  starters: "Example messages",
  startersHint: "Shown on its start page, one per line, up to 6.",
  tooManyStarters: "At most 6 lines, each up to 500 characters.",
};

export const agentStringsZh: typeof agentStringsEn = {
  design: "一起来设计你的智能体",
  designQuestion: "它要为你做什么？用一两句话描述工作内容。接下来会询问语气、工具和限制。",
  designExamples: "示例",
  designs: [
    {
      title: "每周新闻摘要",
      prompt: "一个每周研究某个主题的新闻，并写出一页带来源的摘要的智能体。",
    },
    {
      title: "细心的编辑",
      prompt: "一个修改我的草稿的智能体：句子更清楚，意思不变，并列出改了什么、为什么改。",
    },
    {
      title: "数据分析师",
      prompt: "一个分析我上传的 CSV 文件、绘制图表并用通俗的话解释结果的智能体。",
    },
  ],
  startWith: (name) => `与 ${name} 对话`,
  agentStarters: "该智能体的示例",
  editAgent: "编辑智能体",
  unavailable: "无法加载该智能体的说明，但仍可与它对话。",
  instructions: "角色设定",
  instructionsHint: "用 Markdown 写明角色、语气、工作方式和限制。保存为 SOUL.md。",
  tools: "工具",
  allTools: "全部工具",
  allToolsHint: "包括以后添加的工具。取消勾选可自行选择。",
  toolsUnavailable: "无法加载工具，所选内容保持不变。",
  noTools: "只有所有智能体都有的工具，例如提问。",
  skills: "技能",
  allSkills: "全部已启用的技能",
  allSkillsHint: "取消勾选可自行选择。",
  skillsUnavailable: "无法加载技能，所选内容保持不变。",
  noSkills: "不使用技能。",
  off: "未启用",
  missing: "不可用",
  groups: {
    bash: "运行命令",
    "file:read": "读取文件",
    "file:write": "写入和编辑文件",
    web: "搜索和读取网页",
    mcp: "全部 MCP 服务器",
    acp: "其他智能体（ACP）",
  },
  serverGroup: (server) => `MCP 服务器 ${server}`,
  starters: "示例消息",
  startersHint: "显示在它的起始页上，每行一条，最多 6 条。",
  tooManyStarters: "最多 6 行，每行不超过 500 个字符。",
};

const STRINGS: Readonly<Record<Language, typeof agentStringsEn>> = {
  en: agentStringsEn,
  zh: agentStringsZh,
};

export function useAgentStrings(): typeof agentStringsEn {
  return STRINGS[useLanguage()];
}
