/** Arguments of a call as fields, with the line breaks of texts. */

import { isStructured, labelOf } from "@/run/arguments";

export function ArgumentFields({ args }: { args: Readonly<Record<string, unknown>> }) {
  return (
    <dl className="grid grid-cols-[minmax(4rem,auto)_minmax(0,1fr)] gap-x-4 gap-y-2 text-small">
      {Object.entries(args).map(([name, value]) => (
        <div key={name} className="col-span-2 grid grid-cols-subgrid">
          <dt title={name} className="text-faint">
            {labelOf(name)}
          </dt>
          <dd
            className={`max-h-[20lh] overflow-y-auto whitespace-pre-wrap [overflow-wrap:anywhere] ${
              isStructured(value) ? "font-mono" : ""
            }`}
          >
            {typeof value === "string" ? value : JSON.stringify(value, null, 2)}
          </dd>
        </div>
      ))}
    </dl>
  );
}
