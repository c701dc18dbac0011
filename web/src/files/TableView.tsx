/** Virtualized table. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useState } from "react";
import { fileName } from "@/api/artifacts";
import { parseTable, separatorOf } from "@/files/csv";
import { endingOf } from "@/files/kinds";
import { useStrings } from "@/i18n/context";

const ROW = 32;

export default function TableView({ text, path }: { text: string; path: string }) {
  const strings = useStrings();
  const [area, setArea] = useState<HTMLDivElement | null>(null);
  const [head = [], ...rows] = useMemo(
    () => parseTable(text, separatorOf(text, endingOf(path))),
    [text, path],
  );
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => area,
    estimateSize: () => ROW,
    overscan: 12,
  });
  const columns = { gridTemplateColumns: `repeat(${head.length}, minmax(6rem, 1fr))` };
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be scrolled with keys */}
      <div ref={setArea} tabIndex={0} className="min-h-0 flex-1 overflow-auto text-small">
        {/* biome-ignore lint/a11y/useSemanticElements: rows of a table element cannot be left out */}
        <div role="table" aria-label={fileName(path)} aria-rowcount={rows.length + 1} className="min-w-max">
          <Cells role="columnheader" cells={head} index={1} style={columns} />
          {/* biome-ignore lint/a11y/useSemanticElements: see above */}
          <div role="rowgroup" style={{ height: virtual.getTotalSize() }} className="relative">
            {virtual.getVirtualItems().map(({ index, start }) => (
              <Cells
                key={index}
                role="cell"
                cells={rows[index] ?? []}
                index={index + 2}
                style={{ ...columns, transform: `translateY(${start}px)` }}
              />
            ))}
          </div>
        </div>
      </div>
      <p className="shrink-0 border-t border-line px-3 py-2 text-small text-faint">
        {strings.tableSize(rows.length, head.length)}
      </p>
    </>
  );
}

interface CellsProps {
  readonly role: "cell" | "columnheader";
  readonly cells: readonly string[];
  readonly index: number;
  readonly style: React.CSSProperties;
}

function Cells({ role, cells, index, style }: CellsProps) {
  const place = role === "cell" ? "absolute inset-x-0 top-0" : "sticky top-0 z-10 bg-rail font-semibold";
  return (
    // biome-ignore lint/a11y/useSemanticElements: a row of the table above
    // biome-ignore lint/a11y/useFocusableInteractive: nothing is done with a row
    <div role="row" aria-rowindex={index} style={style} className={`grid h-8 border-b border-line ${place}`}>
      {cells.map((cell, column) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: cells keep their places
        <div key={column} role={role} title={cell} className="truncate px-3 py-1.5">
          {cell}
        </div>
      ))}
    </div>
  );
}
