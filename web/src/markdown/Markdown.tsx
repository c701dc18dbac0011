/** Renders Markdown. */

import { memo, useId, useMemo, useRef, useState } from "react";
import {
  allBlocks,
  type Block,
  EMPTY_SPLIT,
  normaliseLines,
  openBlock,
  splitBlocks,
} from "@/markdown/blocks";
import { CitationNumbers } from "@/markdown/Citation";
import { FootnoteList, FootnotesProvider, footnotesOf } from "@/markdown/footnotes";
import { renderTokens } from "@/markdown/render";

export const Markdown = memo(function Markdown({ text, growing }: { text: string; growing: boolean }) {
  const id = useId();
  const blocks = useBlocks(normaliseLines(text), growing);
  // Notes are numbered when the text is complete: it is not searched for every token.
  // biome-ignore lint/correctness/useExhaustiveDependencies: the blocks of a complete text depend on the text alone
  const footnotes = useMemo(
    () => ({ id, notes: growing ? [] : footnotesOf(text, blocks) }),
    [id, growing, growing ? "" : text],
  );
  const [numbers] = useState(() => new Map<string, number>());
  return (
    <CitationNumbers value={numbers}>
      <div className="prose">
        <FootnotesProvider value={footnotes}>
          {blocks.map((block, index) => (
            <BlockView key={block.start} block={block} settled={!growing || index < blocks.length - 1} />
          ))}
          <FootnoteList render={({ tokens }) => renderTokens(tokens, true)} />
        </FootnotesProvider>
      </div>
    </CitationNumbers>
  );
});

/** Memoized by tokens. */
const BlockView = memo(function BlockView({ block, settled }: { block: Block; settled: boolean }) {
  return <>{renderTokens(block.tokens, settled)}</>;
});

function useBlocks(text: string, growing: boolean): readonly Block[] {
  // A cache derived from the text; safe to lose.
  const known = useRef(EMPTY_SPLIT);
  const split = splitBlocks(known.current, text);
  known.current = split;
  return growing ? [...split.finished, openBlock(split)] : allBlocks(split, text);
}
