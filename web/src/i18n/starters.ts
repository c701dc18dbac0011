/** Tasks that the start page suggests for a real model. Loaded with it. */

import { useLanguage } from "@/i18n/context";
import type { Language } from "@/i18n/i18n";

export const starterStringsEn = {
  chart: {
    title: "Analyze data and draw a chart",
    prompt:
      "Compare the population of the ten largest countries in 2000 and 2020, and draw a chart. Ask me if you would rather use a file of mine.",
  },
  deck: {
    title: "Create slides",
    prompt:
      "Create a presentation of six slides about how heat pumps work, for people without technical knowledge.",
  },
  report: {
    title: "Research a topic and write a report",
    prompt: "Research the state of solid-state batteries and write a two-page report with sources.",
  },
  page: {
    title: "Build a web page",
    prompt: "Build a single web page for a small bakery: opening hours, menu, and a map drawn as SVG.",
  },
  table: {
    title: "Compare options in a table",
    prompt:
      "Compare five note-taking apps in a table: price, platforms, offline use, export, and who each is for.",
  },
  plan: {
    title: "Plan a project",
    prompt:
      "Plan the move of a team of twelve into a new office: steps, who does them, and by when. Ask me what you need to know.",
  },
};

export const starterStringsZh: typeof starterStringsEn = {
  chart: {
    title: "分析数据并绘制图表",
    prompt: "比较 2000 年和 2020 年人口最多的十个国家，并绘制图表。如果你想改用我的文件，请先问我。",
  },
  deck: {
    title: "制作幻灯片",
    prompt: "制作一份六页的演示文稿，向没有技术背景的人介绍热泵的工作原理。",
  },
  report: {
    title: "研究课题并撰写报告",
    prompt: "研究固态电池的现状，写一份两页的报告，并注明来源。",
  },
  page: {
    title: "制作网页",
    prompt: "为一家小面包店制作一个单页网站：营业时间、菜单，以及用 SVG 绘制的地图。",
  },
  table: {
    title: "用表格比较方案",
    prompt: "用表格比较五款笔记应用：价格、平台、离线使用、导出，以及各自适合的人群。",
  },
  plan: {
    title: "规划项目",
    prompt: "为一个十二人的团队规划搬入新办公室：步骤、负责人和时间。需要了解什么请问我。",
  },
};

const STRINGS: Readonly<Record<Language, typeof starterStringsEn>> = {
  en: starterStringsEn,
  zh: starterStringsZh,
};

export function useStarterStrings(): typeof starterStringsEn {
  return STRINGS[useLanguage()];
}
