/** Initial of an agent on a coloured square; the colour follows from the name. */

const HUES = [
  "bg-blue-tint text-blue",
  "bg-green-tint text-green",
  "bg-amber-tint text-amber",
  "bg-violet-tint text-violet",
  "bg-rose-tint text-rose",
  "bg-teal-tint text-teal",
] as const;

export function AgentAvatar({ name, large = false }: { name: string; large?: boolean }) {
  return (
    <span
      aria-hidden
      className={`flex shrink-0 items-center justify-center rounded-box font-semibold select-none ${hueOf(name)} ${
        large ? "size-12 text-title" : "size-8 text-ui"
      }`}
    >
      {name.charAt(0).toUpperCase()}
    </span>
  );
}

/** Return the same colours for the same name on every machine. */
export function hueOf(name: string): string {
  let sum = 0;
  for (const letter of name) sum = (sum * 31 + (letter.codePointAt(0) ?? 0)) % 65_521;
  return HUES[sum % HUES.length] ?? HUES[0];
}
