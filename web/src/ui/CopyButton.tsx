/** Button that copies a text. */

import { Check, Copy } from "lucide-react";
import { useEffect, useState } from "react";
import { useStrings } from "@/i18n/context";
import { IconButton } from "@/ui/IconButton";

const COPIED_MS = 1600;

export function CopyButton({ text, label }: { text: string; label: string }) {
  const strings = useStrings();
  const [copied, setCopied] = useState(false);

  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), COPIED_MS);
    return () => clearTimeout(timer);
  }, [copied]);

  return (
    <IconButton
      label={copied ? strings.copied : label}
      onClick={async () => setCopied(await copyText(text))}
      icon={copied ? Check : Copy}
    />
  );
}

async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

/** Fallback without a secure context. */
function copyBySelection(text: string): boolean {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "sr-only";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}
