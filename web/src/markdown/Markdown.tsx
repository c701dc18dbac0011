/** An answer's text. */

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

/** A block with the same tokens is never rendered again. */
const BlockView = memo(function BlockView({ block, settled }: { block: Block; settled: boolean }) {
  return <>{renderTokens(block.tokens, settled)}</>;
});

function useBlocks(text: string, growing: boolean): readonly Block[] {
  // A cache of what the text already determines, not state: losing it costs time, never correctness.
  const known = useRef(EMPTY_SPLIT);
  const split = splitBlocks(known.current, text);
  known.current = split;
  return growing ? [...split.finished, openBlock(split)] : allBlocks(split, text);
}
