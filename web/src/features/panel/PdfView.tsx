/** A PDF, drawn page by page; the reader of its format runs in a worker of its own. */

import { useQuery } from "@tanstack/react-query";
import { GlobalWorkerOptions, getDocument, type PDFDocumentProxy, VerbosityLevel } from "pdfjs-dist";
import workerUrl from "pdfjs-dist/build/pdf.worker.min.mjs?url";
import { useEffect, useRef, useState } from "react";
import { useStrings } from "@/app/context";
import { useServer } from "@/app/server";
import { Loading, Unshown } from "@/features/panel/states";

GlobalWorkerOptions.workerSrc = workerUrl;

export default function PdfView({ threadId, path }: { threadId: string; path: string }) {
  const strings = useStrings();
  const server = useServer();
  const { document, broken } = useDocument(
    useQuery({
      queryKey: ["thread", threadId, "bytes", path],
      queryFn: () => server.bytes(threadId, path),
    }),
  );
  if (broken) return <Unshown text={strings.fileUnshown} />;
  if (document === null) return <Loading />;
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

function useDocument({ data, isError }: { data: ArrayBuffer | undefined; isError: boolean }) {
  const [document, setDocument] = useState<PDFDocumentProxy | null>(null);
  const [unreadable, setUnreadable] = useState(false);
  useEffect(() => {
    if (data === undefined) return;
    // A copy: the worker takes the bytes away. No WebAssembly: the page's policy compiles none.
    const task = getDocument({ data: data.slice(0), useWasm: false, verbosity: VerbosityLevel.ERRORS });
    task.promise.then(setDocument, () => setUnreadable(true));
    return () => void task.destroy();
  }, [data]);
  return { document, broken: isError || unreadable };
}

/** One page, drawn when it comes near. */
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
        // A page that cannot be drawn stays blank; the others need not.
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
