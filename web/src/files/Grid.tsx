/** Virtualized table that can be sorted by any column. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowDown, ArrowUp } from "lucide-react";
import { useMemo, useState } from "react";
import { numberIn, type Sorting, sortRows } from "@/files/sortRows";
import { usePreviewStrings } from "@/i18n/useResultStrings";

const ROW = 32;

interface Props {
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
  readonly label: string;
}

export function Grid({ head, rows, label }: Props) {
  const [area, setArea] = useState<HTMLDivElement | null>(null);
  const [sorting, setSorting] = useState<Sorting | null>(null);
  const sorted = useMemo(() => sortRows(rows, sorting), [rows, sorting]);
  const virtual = useVirtualizer({
    count: sorted.length,
    getScrollElement: () => area,
    estimateSize: () => ROW,
    overscan: 12,
  });
  const columns = useMemo(() => ({ gridTemplateColumns: columnWidths(head, rows) }), [head, rows]);
  const isNumeric = useMemo(() => head.map((_, column) => isNumbers(rows, column)), [head, rows]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be scrolled with keys
    <div ref={setArea} tabIndex={0} className="min-h-0 flex-1 overflow-auto text-small">
      {/* biome-ignore lint/a11y/useSemanticElements: rows of a table element cannot be left out */}
      <div role="table" aria-label={label} aria-rowcount={rows.length + 1} className="min-w-max">
        {/* biome-ignore lint/a11y/useSemanticElements: see above */}
        {/* biome-ignore lint/a11y/useFocusableInteractive: its buttons are focusable */}
        <div
          role="row"
          aria-rowindex={1}
          style={columns}
          className="sticky top-0 z-10 grid h-8 border-b border-line bg-rail font-semibold"
        >
          {head.map((name, column) => (
            <Heading
              // biome-ignore lint/suspicious/noArrayIndexKey: columns keep their places
              key={column}
              name={name}
              atEnd={isNumeric[column] === true}
              order={sorting?.column === column ? sorting.order : null}
              onSort={() => setSorting(nextSorting(sorting, column))}
            />
          ))}
        </div>
        {/* biome-ignore lint/a11y/useSemanticElements: see above */}
        <div role="rowgroup" style={{ height: virtual.getTotalSize() }} className="relative">
          {virtual.getVirtualItems().map(({ index, start }) => (
            // biome-ignore lint/a11y/useSemanticElements: a row of the table above
            // biome-ignore lint/a11y/useFocusableInteractive: nothing is done with a row
            <div
              key={index}
              role="row"
              aria-rowindex={index + 2}
              style={{ ...columns, transform: `translateY(${start}px)` }}
              className="absolute inset-x-0 top-0 grid h-8 border-b border-line"
            >
              {head.map((_, column) => (
                // biome-ignore lint/a11y/useSemanticElements: a cell of the row above
                <div
                  // biome-ignore lint/suspicious/noArrayIndexKey: cells keep their places
                  key={column}
                  role="cell"
                  title={sorted[index]?.[column]}
                  className={`truncate px-3 py-1.5 ${isNumeric[column] ? "text-right tabular-nums" : ""}`}
                >
                  {sorted[index]?.[column]}
                </div>
              ))}
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}

// Widths by the longest of the first cells: rows are laid out independently of each other.
const MEASURED_ROWS = 200;
const [NARROWEST, WIDEST, PADDING] = [6, 32, 4];

function columnWidths(head: Props["head"], rows: Props["rows"]): string {
  const measured = [head, ...rows.slice(0, MEASURED_ROWS)];
  return head
    .map((_, column) => {
      const longest = Math.max(...measured.map((row) => row[column]?.length ?? 0));
      const width = Math.min(Math.max(longest + PADDING, NARROWEST), WIDEST);
      // Room that is left is shared in proportion; equal shares would make all columns as wide as the widest.
      return `minmax(${width}ch, ${width}fr)`;
    })
    .join(" ");
}

/** Return true if the filled cells of a column are numbers, which are aligned at their end. */
function isNumbers(rows: Props["rows"], column: number): boolean {
  const filled = rows.slice(0, MEASURED_ROWS).flatMap((row) => row[column] || []);
  return filled.length > 0 && filled.every((cell) => numberIn(cell) !== null);
}

interface HeadingProps {
  readonly name: string;
  readonly atEnd: boolean;
  readonly order: Sorting["order"] | null;
  readonly onSort: () => void;
}

function Heading({ name, atEnd, order, onSort }: HeadingProps) {
  const strings = usePreviewStrings();
  const Icon = order === "ascending" ? ArrowUp : ArrowDown;
  return (
    // biome-ignore lint/a11y/useSemanticElements: a cell of the row above
    // biome-ignore lint/a11y/useFocusableInteractive: its button is focusable
    <div role="columnheader" aria-sort={order ?? "none"} className="flex min-w-0">
      <button
        type="button"
        title={strings.sortBy(name)}
        onClick={onSort}
        className={`flex min-w-0 flex-1 items-center gap-1 px-3 hover:bg-tint focus-visible:-outline-offset-2 ${atEnd ? "justify-end" : "text-left"}`}
      >
        <span className="truncate">{name}</span>
        {order !== null && <Icon aria-hidden className="size-3 shrink-0" />}
      </button>
    </div>
  );
}

/** A column is sorted up, then down, then as in the file. */
function nextSorting(sorting: Sorting | null, column: number): Sorting | null {
  if (sorting?.column !== column) return { column, order: "ascending" };
  return sorting.order === "ascending" ? { column, order: "descending" } : null;
}
