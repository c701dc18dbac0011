/** Unified diff of the files of a skill. */

import { useStrings } from "@/i18n/context";

const LOOKS: Readonly<Record<string, string>> = {
  "+": "bg-done-tint text-done",
  "-": "bg-error-tint text-error",
  "@": "text-faint",
};

export function Diff({ text }: { text: string }) {
  const { skill: strings } = useStrings();
  if (text === "") return <p className="text-small text-faint">{strings.noDiff}</p>;
  const lines = text.replace(/\n$/, "").split("\n");
  return (
    <pre
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a long change must be scrollable by keyboard
      tabIndex={0}
      className="max-h-[24lh] overflow-auto font-mono text-small whitespace-pre-wrap [overflow-wrap:anywhere]"
    >
      {lines.map((line, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a change never changes
        <div key={index} className={isHeader(lines, index) ? "font-medium" : (LOOKS[line.charAt(0)] ?? "")}>
          {line || " "}
        </div>
      ))}
    </pre>
  );
}

/** The two lines that name a file look like a removed and an added line. */
function isHeader(lines: readonly string[], index: number): boolean {
  const first = lines[index]?.startsWith("+++ ") ? index - 1 : index;
  return lines[first]?.startsWith("--- ") === true && lines[first + 1]?.startsWith("+++ ") === true;
}
