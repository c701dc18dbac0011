/** A Mermaid diagram; shows the source if rendering fails. */

import { memo, useEffect, useState } from "react";
import { useStrings } from "@/i18n/context";
import { CodeBlock } from "@/markdown/CodeBlock";
import { type Drawn, drawDiagram } from "@/markdown/diagrams";

export const Diagram = memo(function Diagram({ source }: { source: string }) {
  const strings = useStrings();
  const [drawn, setDrawn] = useState<Drawn | null>(null);
  const [shown, setShown] = useState(false);

  useEffect(() => {
    let wanted = true;
    drawDiagram(source).then(
      (picture) => wanted && setDrawn(picture),
      () => undefined,
    );
    return () => {
      wanted = false;
    };
  }, [source]);

  const code = <CodeBlock code={source} language="mermaid" settled />;
  if (drawn === null) return code;
  return (
    <figure>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a wide diagram must be scrollable by keyboard */}
      <div className="diagram" tabIndex={0}>
        <img src={drawn.image} width={drawn.width} height={drawn.height} alt={strings.diagram} />
      </div>
      <button
        type="button"
        aria-expanded={shown}
        onClick={() => setShown(!shown)}
        className="mt-1 text-small text-faint hover:text-ink"
      >
        {strings.diagramSource}
      </button>
      {shown && code}
    </figure>
  );
});
