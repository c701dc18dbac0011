/** A Mermaid diagram; shows the source if rendering fails. */

import { Download } from "lucide-react";
import { lazy, memo, Suspense, useEffect, useState } from "react";
import { useStrings } from "@/i18n/context";
import { CodeBlock } from "@/markdown/CodeBlock";
import { type Drawn, drawDiagram, knownDiagram } from "@/markdown/diagrams";
import { CopyButton } from "@/ui/CopyButton";
import { saveFile } from "@/ui/dom/saveFile";
import { useIsDark } from "@/ui/dom/useIsDark";
import { IconButton } from "@/ui/IconButton";

const Lightbox = lazy(() => import("@/ui/Lightbox"));

export const Diagram = memo(function Diagram({ source }: { source: string }) {
  const strings = useStrings();
  const drawn = useDiagram(source);
  const [sourceShown, setSourceShown] = useState(false);
  const [enlarged, setEnlarged] = useState(false);

  const code = <CodeBlock code={source} language="mermaid" settled />;
  if (drawn === null) return code;
  return (
    <figure className="diagram">
      <button
        type="button"
        onClick={() => setEnlarged(true)}
        title={strings.enlarge}
        className="diagram-picture"
      >
        <img src={drawn.image} width={drawn.width} height={drawn.height} alt={strings.diagram} />
      </button>
      <figcaption className="diagram-actions">
        <button type="button" aria-expanded={sourceShown} onClick={() => setSourceShown(!sourceShown)}>
          {strings.diagramSource}
        </button>
        <CopyButton text={source} label={strings.copySource} />
        <IconButton icon={Download} label={strings.downloadSvg} onClick={() => save(drawn)} />
      </figcaption>
      {sourceShown && code}
      {enlarged && (
        <Suspense>
          <Lightbox image={drawn.image} label={strings.diagram} scalable onClose={() => setEnlarged(false)}>
            <IconButton icon={Download} label={strings.downloadSvg} onClick={() => save(drawn)} />
          </Lightbox>
        </Suspense>
      )}
    </figure>
  );
});

/** Return the drawing in the current theme; the last one stays until a new one is ready. */
function useDiagram(source: string): Drawn | null {
  const dark = useIsDark();
  const [drawn, setDrawn] = useState<Drawn | null>(() => knownDiagram(source, dark));
  useEffect(() => {
    let wanted = true;
    drawDiagram(source, dark).then(
      (picture) => wanted && setDrawn(picture),
      () => undefined,
    );
    return () => {
      wanted = false;
    };
  }, [source, dark]);
  return drawn;
}

function save({ svg }: Drawn): void {
  saveFile({ name: "diagram.svg", type: "image/svg+xml", text: svg });
}
