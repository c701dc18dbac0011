/** Icons of tool calls by their kind. */

import {
  Activity,
  CircleStop,
  FileCheck,
  FileDiff,
  FileText,
  FolderOpen,
  Globe,
  type LucideIcon,
  MessageCircleQuestionMark,
  PencilLine,
  Play,
  Search,
  Terminal,
  Users,
  Wrench,
} from "lucide-react";
import type { Strings } from "@/i18n/i18n";

export const TOOL_ICONS: Readonly<Record<keyof Strings["toolVerbs"], LucideIcon>> = {
  run: Terminal,
  start: Play,
  check: Activity,
  end: CircleStop,
  read: FileText,
  write: PencilLine,
  edit: FileDiff,
  list: FolderOpen,
  search: Search,
  fetch: Globe,
  present: FileCheck,
  ask: MessageCircleQuestionMark,
  delegate: Users,
  use: Wrench,
};
