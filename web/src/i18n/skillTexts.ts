/** Descriptions of the built-in skills for people, loaded with the skill pages; others are shown as written. */

import { useLanguage } from "@/i18n/context";

interface NamedSkill {
  readonly name: string;
  readonly description: string;
  readonly category: string;
}

export interface SkillText {
  readonly title: string;
  readonly description: string;
}

export const SKILL_TEXTS_EN: Readonly<Record<string, string>> = {
  "academic-paper-review":
    "Reviews a scientific paper like a careful referee: claims, evidence, gaps and advice.",
  bootstrap: "Creates a custom agent in a conversation, with its instructions (SOUL.md).",
  "chart-visualization": "Draws 16 kinds of charts from CSV, Excel or JSON, as PNG or SVG.",
  "code-documentation": "Writes README, API reference, guides and docstrings from what the code really does.",
  "consulting-analysis": "Breaks a business question into issues and hypotheses, and reports with evidence.",
  "data-analysis": "Answers questions about tables with SQL and statistics, after checking the data.",
  "deep-research": "Researches a question on the web; every claim leads to a page that was read.",
  "document-writing":
    "Writes Word documents with styles, contents, tables and pictures, and fills templates.",
  "find-skills": "Finds the skill for a task, shows what it can do, and helps to install it.",
  "frontend-design": "Designs web pages in one file: landing pages, portfolios, dashboards, explainers.",
  "github-deep-research":
    "Investigates a GitHub repository: purpose, activity and risks, with figures and quotes.",
  "image-generation": "Makes or edits images. Needs an image service that the operator sets up.",
  newsletter: "Plans, writes and builds an e-mail newsletter that mail programs show correctly.",
  "pdf-tools": "Merges, splits, rotates, watermarks and protects PDFs; extracts content and fills forms.",
  "podcast-script": "Turns a topic or report into a two-host podcast script with chapter marks.",
  "report-generation":
    "Writes a professional report as HTML and PDF, with contents, figures and bibliography.",
  "skill-creator": "Designs and writes a skill or improves one: instructions, scripts, contract and tests.",
  "skill-reviewer": "Audits a skill before it is shared, installed or changed.",
  "slide-creation": "Makes PowerPoint slides with editable charts, tables, pictures and speaker notes.",
  "systematic-literature-review":
    "Plans and carries out a systematic review on arXiv: search, screening, synthesis.",
  "video-generation": "Makes short videos from text. Needs a video service that the operator sets up.",
};

export const SKILL_TEXTS_ZH: Readonly<Record<string, readonly [string, string]>> = {
  "academic-paper-review": ["论文评审", "像严谨的审稿人一样评审一篇论文：主张、证据、缺失之处和修改建议。"],
  bootstrap: ["创建智能体", "通过对话创建自定义智能体，并写好它的角色设定（SOUL.md）。"],
  "chart-visualization": ["图表绘制", "用 CSV、Excel 或 JSON 数据绘制 16 种图表，输出 PNG 或 SVG。"],
  "code-documentation": ["代码文档", "根据代码的实际行为编写 README、API 参考、指南和文档字符串。"],
  "consulting-analysis": ["咨询分析", "把商业问题拆成议题树和假设，用证据验证，给出可供决策的报告。"],
  "data-analysis": ["数据分析", "先检查数据质量，再用 SQL 和统计回答有关表格数据的问题，并导出结果。"],
  "deep-research": ["深度研究", "分多轮在网上研究一个问题，报告中的每个结论都能追溯到读过的网页。"],
  "document-writing": ["文档写作", "编写样式规范的 Word 文档，含目录、题注、表格和图片，也可填写模板。"],
  "find-skills": ["查找技能", "找出适合某项任务的技能，说明其能力，并指导安装 .skill 归档。"],
  "frontend-design": ["网页设计", "设计并制作独立的单文件网页：落地页、作品集、仪表盘或交互说明。"],
  "github-deep-research": [
    "GitHub 仓库研究",
    "调查一个 GitHub 仓库：用途、活跃程度和依赖风险，附数据和引文。",
  ],
  "image-generation": ["图片生成", "根据文字生成图片，或编辑已有图片。需要运营者配置图片服务。"],
  newsletter: ["电子简报", "策划、撰写并生成电子邮件简报，样式在邮件程序中正确显示。"],
  "pdf-tools": ["PDF 工具", "合并、拆分、旋转、加水印、保护 PDF，提取文字、表格和图片，填写表单。"],
  "podcast-script": ["播客脚本", "把主题、文章或报告改写成口语化的双人播客脚本，含章节标记。"],
  "report-generation": ["报告生成", "撰写专业报告，排版为独立的 HTML 和 PDF，含目录、图表和参考文献。"],
  "skill-creator": ["技能制作", "设计并编写新技能或改进已有技能，含说明、脚本、契约和测试，并打包。"],
  "skill-reviewer": ["技能审查", "在分享、安装或修改技能之前进行审查：说明、脚本、契约、测试和风险。"],
  "slide-creation": ["幻灯片制作", "根据大纲制作 PowerPoint，含可编辑图表、表格、图片和演讲者备注。"],
  "systematic-literature-review": [
    "系统性文献综述",
    "在 arXiv 上规划并完成系统性综述：检索方案、筛选、提取表和综合。",
  ],
  "video-generation": ["视频生成", "根据文字生成短视频。需要运营者配置视频服务。"],
};

/** Return a function that gives the title and description of a skill in the language of the page. */
export function useSkillText(): (skill: NamedSkill) => SkillText {
  const language = useLanguage();
  return ({ name, description, category }) => {
    if (category !== "public") return { title: name, description };
    const [title, text] = (language === "zh" ? SKILL_TEXTS_ZH[name] : undefined) ?? [
      name,
      SKILL_TEXTS_EN[name],
    ];
    return { title, description: text ?? description };
  };
}
