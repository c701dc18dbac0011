/** Icon of a skill by its category, which follows from words of its name. */

import {
  AudioLines,
  BookOpen,
  ChartColumn,
  Code,
  FileText,
  Film,
  GraduationCap,
  Image,
  type LucideIcon,
  Newspaper,
  Palette,
  Presentation,
  Search,
  Wrench,
} from "lucide-react";

interface Category {
  readonly words: RegExp;
  readonly icon: LucideIcon;
  readonly look: string;
}

/** The first match decides. */
const CATEGORIES: readonly Category[] = [
  { words: /skill|bootstrap/, icon: Wrench, look: "bg-tint text-soft" },
  { words: /slide|presentation|deck|ppt/, icon: Presentation, look: "bg-amber-tint text-amber" },
  { words: /chart|data|analy|spreadsheet|xlsx/, icon: ChartColumn, look: "bg-green-tint text-green" },
  { words: /paper|literature|review|academic/, icon: BookOpen, look: "bg-blue-tint text-blue" },
  { words: /research|search|find/, icon: Search, look: "bg-teal-tint text-teal" },
  { words: /news|blog|letter/, icon: Newspaper, look: "bg-blue-tint text-blue" },
  { words: /podcast|audio|music|speech/, icon: AudioLines, look: "bg-rose-tint text-rose" },
  { words: /video|film|movie/, icon: Film, look: "bg-rose-tint text-rose" },
  { words: /image|photo|picture/, icon: Image, look: "bg-rose-tint text-rose" },
  { words: /design|frontend|style/, icon: Palette, look: "bg-violet-tint text-violet" },
  { words: /code|github|git|python/, icon: Code, look: "bg-violet-tint text-violet" },
  { words: /report|document|writing|pdf|docx/, icon: FileText, look: "bg-blue-tint text-blue" },
];
const OTHER: Category = { words: /./, icon: GraduationCap, look: "bg-tint text-soft" };

export function SkillIcon({ name, enabled }: { name: string; enabled: boolean }) {
  const { icon: Icon, look } = CATEGORIES.find(({ words }) => words.test(name)) ?? OTHER;
  return (
    <span
      aria-hidden
      className={`flex size-8 shrink-0 items-center justify-center rounded-box ${enabled ? look : "bg-tint text-faint"}`}
    >
      <Icon className="size-4" />
    </span>
  );
}
