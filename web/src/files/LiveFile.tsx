/** A web page or Markdown text while it is being written. */

import { useEffect, useRef, useState } from "react";
import { fileName } from "@/api/artifacts";
import { previewOf } from "@/files/previews";
import { usePreviewStrings } from "@/i18n/useResultStrings";
import { Markdown } from "@/markdown/Markdown";

export default function LiveFile({ path, text }: { path: string; text: string }) {
  const strings = usePreviewStrings();
  const end = useRef<HTMLDivElement>(null);
  const isPage = previewOf(path) === "page";
  // biome-ignore lint/correctness/useExhaustiveDependencies: follows the end as the text grows
  useEffect(() => {
    if (!isPage) end.current?.scrollTo?.({ top: end.current.scrollHeight });
  }, [text, isPage]);
  return (
    <>
      {isPage ? (
        <LivePage html={text} name={fileName(path)} />
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be scrolled with keys
        <div ref={end} tabIndex={0} className="min-h-0 flex-1 overflow-y-auto p-4">
          <Markdown text={text} growing />
        </div>
      )}
      <p className="shrink-0 border-t border-line px-3 py-2 text-small text-running">{strings.writing}</p>
    </>
  );
}

function LivePage({ html, name }: { html: string; name: string }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const [ready, setReady] = useState(false);
  useEffect(() => {
    const onMessage = ({ data, source }: MessageEvent) => {
      if (source === frame.current?.contentWindow && data === "ready to show") setReady(true);
    };
    window.addEventListener("message", onMessage);
    return () => window.removeEventListener("message", onMessage);
  }, []);
  useEffect(() => {
    // The frame has no origin that could be named.
    if (ready) frame.current?.contentWindow?.postMessage({ html }, "*");
  }, [ready, html]);
  return (
    <iframe
      ref={frame}
      src="/live.html"
      title={name}
      sandbox="allow-scripts"
      className="min-h-0 w-full flex-1 bg-sheet [color-scheme:light]"
    />
  );
}
