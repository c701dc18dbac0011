/** A code block, highlighted once complete. */

import { memo, useEffect, useState } from "react";
import { useStrings } from "@/i18n/context";
import { type Coloured, highlight } from "@/markdown/highlight";
import { CopyButton } from "@/ui/CopyButton";

interface Props {
  readonly code: string;
  readonly language: string;
  readonly settled: boolean;
}

export const CodeBlock = memo(function CodeBlock({ code, language, settled }: Props) {
  const strings = useStrings();
  const name = language.split(/[\s,{]/)[0] ?? "";
  const coloured = useHighlight(code, name, settled);
  return (
    <div className="overflow-hidden rounded-box border border-line bg-rail">
      <div className="flex h-9 items-center justify-between border-b border-line pr-1 pl-3 text-small text-faint">
        <span className="font-mono">{name}</span>
        <CopyButton text={code} label={strings.copyCode} />
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: wide code must be scrollable by keyboard */}
      <pre className="overflow-x-auto p-3 font-mono text-small leading-[1.6]" tabIndex={0}>
        <code>{coloured === null ? code : <ColouredCode nodes={coloured} />}</code>
      </pre>
    </div>
  );
});

function ColouredCode({ nodes }: { nodes: readonly Coloured[] }) {
  return nodes.map((node, index) =>
    typeof node === "string" ? (
      node
    ) : (
      // biome-ignore lint/suspicious/noArrayIndexKey: finished code never changes
      <span key={index} className={node.className}>
        <ColouredCode nodes={node.children} />
      </span>
    ),
  );
}

/** Return highlighted tokens once loaded; the layout does not change. */
function useHighlight(code: string, language: string, settled: boolean): readonly Coloured[] | null {
  const [result, setResult] = useState<{ code: string; nodes: readonly Coloured[] | null } | null>(null);
  useEffect(() => {
    if (!settled || language === "") return;
    let wanted = true;
    highlight(code, language).then((nodes) => {
      if (wanted) setResult({ code, nodes });
    });
    return () => {
      wanted = false;
    };
  }, [code, language, settled]);
  return result?.code === code ? result.nodes : null;
}
