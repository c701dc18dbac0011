/** Text of a document: headings, paragraphs, lists, tables and pictures. */

import { type ReactNode, useMemo } from "react";
import type { OfficePreview } from "@/api/threadFiles";
import type { Schemas } from "@/api/wire";
import { usePreviewStrings } from "@/i18n/useResultStrings";
import { ErrorState } from "@/ui/states";

type Document = Extract<OfficePreview, { kind: "document" }>;
type TextBlock = Schemas["TextBlock"];
type Run = Schemas["TextRun"];

export function DocumentView({ preview, label }: { preview: Document; label: string }) {
  const strings = usePreviewStrings();
  const marks = useMemo(() => listMarks(preview.blocks), [preview.blocks]);
  if (preview.blocks.length === 0) return <ErrorState text={strings.emptyDocument} />;
  return (
    <>
      <article
        aria-label={label}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be scrolled with keys
        tabIndex={0}
        className="min-h-0 w-full flex-1 overflow-auto p-4"
      >
        <div className="prose mx-auto max-w-[46rem]">
          {preview.blocks.map((block, index) => blockOf(block, index, marks[index]))}
        </div>
      </article>
      {preview.is_truncated && (
        <p className="shrink-0 border-t border-line px-3 py-2 text-small text-faint">{strings.documentCut}</p>
      )}
    </>
  );
}

/** Indentation of list items by their level. */
const INDENTS = ["pl-2", "pl-8", "pl-14", "pl-20", "pl-26"] as const;
const ALIGNMENTS = { center: "text-center", right: "text-right", justify: "text-justify" } as const;

/** Return the mark of each list item: a bullet, or its number in its list. */
export function listMarks(blocks: Document["blocks"]): readonly string[] {
  let counters: number[] = [];
  return blocks.map((block) => {
    if (block.type !== "list") {
      counters = [];
      return "";
    }
    const level = block.level ?? 0;
    if (!block.is_numbered) return "•";
    counters = counters.slice(0, level + 1);
    counters[level] = (counters[level] ?? 0) + 1;
    return `${counters[level]}.`;
  });
}

function blockOf(block: Document["blocks"][number], index: number, mark = ""): ReactNode {
  if (block.type === "table") return <Table key={index} rows={block.rows} />;
  return <Text key={index} block={block} mark={mark} />;
}

function Text({ block, mark }: { block: TextBlock; mark: string }) {
  const align = block.align ? ALIGNMENTS[block.align] : "";
  const direction = block.is_rtl ? "rtl" : undefined;
  const runs = block.runs.map(runOf);
  if (block.type === "heading") {
    const Heading = `h${Math.min(Math.max((block.level ?? 1) + 1, 2), 6)}` as "h2";
    return (
      <Heading dir={direction} className={align}>
        {runs}
      </Heading>
    );
  }
  if (block.type === "quote") return <blockquote dir={direction}>{runs}</blockquote>;
  if (block.type === "list") {
    const level = Math.min(block.level ?? 0, INDENTS.length - 1);
    return (
      <div dir={direction} className={`flex gap-2 ${INDENTS[level]} ${align}`}>
        <span className="min-w-5 shrink-0 text-faint">{mark}</span>
        <p className="m-0 min-w-0 flex-1">{runs}</p>
      </div>
    );
  }
  return (
    <p dir={direction} className={`whitespace-pre-wrap ${align}`}>
      {runs}
    </p>
  );
}

function runOf(run: Run, index: number): ReactNode {
  if (run.image != null) return <Picture key={index} run={run} />;
  let text: ReactNode = run.text;
  if (run.bold) text = <strong>{text}</strong>;
  if (run.italic) text = <em>{text}</em>;
  if (run.underline && run.href == null) text = <u>{text}</u>;
  if (run.strike) text = <s>{text}</s>;
  if (run.script === "superscript") text = <sup>{text}</sup>;
  if (run.script === "subscript") text = <sub>{text}</sub>;
  if (run.href == null) return <span key={index}>{text}</span>;
  return (
    <a key={index} href={run.href} target="_blank" rel="noopener noreferrer">
      {text}
    </a>
  );
}

function Picture({ run }: { run: Run }) {
  const strings = usePreviewStrings();
  if (!run.image)
    return (
      <span className="inline-block rounded-box border border-line px-2 py-1 text-small text-faint">
        {run.text || strings.missingPicture}
      </span>
    );
  return (
    <img
      src={run.image}
      alt={run.text}
      style={{ width: run.width ? `${run.width}px` : undefined }}
      className="inline-block h-auto max-w-full"
    />
  );
}

function Table({ rows }: { rows: Schemas["TableBlock"]["rows"] }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be scrolled with keys
    <div tabIndex={0} className="my-4 overflow-x-auto">
      <table>
        <tbody>
          {rows.map((row, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: rows keep their places
            <tr key={index}>
              {row.map((cell, column) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: cells keep their places
                <td key={column} colSpan={cell.column_span} rowSpan={cell.row_span} className="align-top">
                  {cell.blocks.map((block, at) => blockOf(block, at))}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
