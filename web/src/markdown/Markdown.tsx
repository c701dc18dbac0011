/** Renders Markdown. */

import { memo, useRef } from "react";
import {
  allBlocks,
  type Block,
  EMPTY_SPLIT,
  normaliseLines,
  openBlock,
  splitBlocks,
} from "@/markdown/blocks";
import { renderTokens } from "@/markdown/render";

export const Markdown = memo(function Markdown({ text, growing }: { text: string; growing: boolean }) {
  const blocks = useBlocks(normaliseLines(text), growing);
  return (
    <div className="prose">
      {blocks.map((block, index) => (
        <BlockView key={block.start} block={block} settled={!growing || index < blocks.length - 1} />
      ))}
    </div>
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
