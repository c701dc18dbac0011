/** PDF viewer; parsing runs in a worker. */

import { useQuery } from "@tanstack/react-query";
import { GlobalWorkerOptions, getDocument, type PDFDocumentProxy, VerbosityLevel } from "pdfjs-dist";
import workerUrl from "pdfjs-dist/build/pdf.worker.min.mjs?url";
import { useEffect, useRef, useState } from "react";
import { useStrings } from "@/i18n/context";
import { useServer } from "@/state/server";
import { ErrorState, LoadingState } from "@/ui/states";

GlobalWorkerOptions.workerSrc = workerUrl;

export default function PdfView({ threadId, path }: { threadId: string; path: string }) {
  const strings = useStrings();
  const server = useServer();
  const { document, broken } = useDocumentAttributes(
    useQuery({
      queryKey: ["thread", threadId, "bytes", path],
      queryFn: () => server.bytes(threadId, path),
    }),
  );
  if (broken) return <ErrorState text={strings.noPreview} />;
  if (document === null) return <LoadingState />;
  const pages = Array.from({ length: document.numPages }, (_, index) => index + 1);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be scrolled with keys
    <div tabIndex={0} className="flex min-h-0 flex-1 flex-col gap-3 overflow-y-auto bg-rail p-3">
      {pages.map((number) => (
        <PdfPage key={number} document={document} number={number} />
      ))}
    </div>
  );
}

function useDocumentAttributes({ data, isError }: { data: ArrayBuffer | undefined; isError: boolean }) {
  const [document, setDocument] = useState<PDFDocumentProxy | null>(null);
  const [unreadable, setUnreadable] = useState(false);
  useEffect(() => {
    if (data === undefined) return;
    // Copied because the worker transfers the buffer. WebAssembly is blocked by the page's CSP.
    const task = getDocument({ data: data.slice(0), useWasm: false, verbosity: VerbosityLevel.ERRORS });
    task.promise.then(setDocument, () => setUnreadable(true));
    return () => void task.destroy();
  }, [data]);
  return { document, broken: isError || unreadable };
}

/** A page, rendered when scrolled near. */
function PdfPage({ document, number }: { document: PDFDocumentProxy; number: number }) {
  const strings = useStrings();
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const place = canvas.current;
    if (place === null) return;
    let drawn = false;
    const observer = new IntersectionObserver(
      (seen) => {
        if (drawn || !seen.some((entry) => entry.isIntersecting)) return;
        drawn = true;
        // A page that fails to render stays blank.
        draw(document, number, place).catch(() => undefined);
      },
      { rootMargin: "600px" },
    );
    observer.observe(place);
    return () => observer.disconnect();
  }, [document, number]);
  return (
    <canvas
      ref={canvas}
      role="img"
      aria-label={strings.pdfPage(number)}
      className="aspect-[1/1.414] w-full border border-line bg-sheet"
    />
  );
}

async function draw(document: PDFDocumentProxy, number: number, canvas: HTMLCanvasElement): Promise<void> {
  const page = await document.getPage(number);
  const natural = page.getViewport({ scale: 1 });
  const scale = (canvas.clientWidth * devicePixelRatio) / natural.width;
  const viewport = page.getViewport({ scale });
  canvas.width = Math.floor(viewport.width);
  canvas.height = Math.floor(viewport.height);
  canvas.style.aspectRatio = `${natural.width} / ${natural.height}`;
  await page.render({ canvas, viewport }).promise;
}
