/** A sentence of the server, in which `backticks` set code apart. */
export function WithCode({ text }: { text: string }) {
  return text.split("`").map((part, index) =>
    index % 2 === 0 ? (
      part
    ) : (
      // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a sentence keep their places
      <code key={index} className="font-mono">
        {part}
      </code>
    ),
  );
}
