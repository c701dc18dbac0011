/** Table of a CSV file. */

import { useMemo } from "react";
import { fileName } from "@/api/artifacts";
import { parseTable, separatorOf } from "@/files/csv";
import { Grid } from "@/files/Grid";
import { endingOf } from "@/files/kinds";
import { useStrings } from "@/i18n/context";

export default function TableView({ text, path }: { text: string; path: string }) {
  const strings = useStrings();
  const table = useMemo(() => {
    const [head = [], ...rows] = parseTable(text, separatorOf(text, endingOf(path)));
    return { head, rows };
  }, [text, path]);
  return (
    <>
      <Grid head={table.head} rows={table.rows} label={fileName(path)} />
      <p className="shrink-0 border-t border-line px-3 py-2 text-small text-faint">
        {strings.tableSize(table.rows.length, table.head.length)}
      </p>
    </>
  );
}
