/** Renders Markdown tokens as React elements, without HTML strings. */

import { Square, SquareCheck } from "lucide-react";
import type { Token, Tokens } from "marked";
import { Fragment, type ReactNode } from "react";
import { useStrings } from "@/i18n/context";
import { CITATION, Citation } from "@/markdown/Citation";
import { CodeBlock } from "@/markdown/CodeBlock";
import { Diagram } from "@/markdown/Diagram";
import { decodeEntities } from "@/markdown/entities";
import { Formula } from "@/markdown/Formula";
import { FootnoteMark, FootnoteText } from "@/markdown/footnotes";
import type { Footnote, FootnoteMark as MarkToken, MathToken } from "@/markdown/lexer";
import { ImageLink, Link } from "@/markdown/links";

export function renderTokens(tokens: readonly Token[], settled: boolean): ReactNode[] {
  return tokens.map((token, index) => {
    const render = RENDERERS[token.type] ?? renderUnknown;
    // biome-ignore lint/suspicious/noArrayIndexKey: the place in its block is all the identity a token has
    return <Fragment key={index}>{render(token as never, settled)}</Fragment>;
  });
}

type Renderer = (token: never, settled: boolean) => ReactNode;

const RENDERERS: Readonly<Record<string, Renderer>> = {
  space: () => null,
  def: () => null,
  hr: () => <hr />,
  br: () => <br />,
  paragraph: (token: Tokens.Paragraph, settled) => <p>{renderTokens(token.tokens, settled)}</p>,
  heading: renderHeading,
  blockquote: (token: Tokens.Blockquote, settled) => (
    <blockquote>{renderTokens(token.tokens, settled)}</blockquote>
  ),
  code: renderCode,
  list: renderList,
  table: renderTable,
  text: renderText,
  escape: (token: Tokens.Escape) => token.text,
  strong: (token: Tokens.Strong, settled) => <strong>{renderTokens(token.tokens, settled)}</strong>,
  em: (token: Tokens.Em, settled) => <em>{renderTokens(token.tokens, settled)}</em>,
  del: (token: Tokens.Del, settled) => <del>{renderTokens(token.tokens, settled)}</del>,
  codespan: (token: Tokens.Codespan) => <code>{token.text}</code>,
  link: renderLink,
  math: ({ text, block }: MathToken, settled) => <Formula source={text} block={block} settled={settled} />,
  image: (token: Tokens.Image) => <ImageLink source={token.href} description={decodeEntities(token.text)} />,
  checkbox: () => null,
  footnoteMark: ({ label }: MarkToken) => <FootnoteMark label={label} />,
  footnote: ({ label, tokens }: Footnote, settled) => (
    <FootnoteText label={label}>{renderTokens(tokens, settled)}</FootnoteText>
  ),
};

function renderUnknown(token: Token): ReactNode {
  return token.raw; // HTML is shown as text
}

function renderCode({ text, lang = "" }: Tokens.Code, settled: boolean): ReactNode {
  if (lang === "math" || lang === "latex") return <Formula source={text} block settled={settled} />;
  if (lang === "mermaid" && settled) return <Diagram source={text} />;
  return <CodeBlock code={text} language={lang} settled={settled} />;
}

function renderLink(token: Tokens.Link, settled: boolean): ReactNode {
  if (CITATION.test(token.text)) {
    return <Citation title={decodeEntities(token.text.replace(CITATION, ""))} href={token.href} />;
  }
  return <Link href={token.href}>{renderTokens(token.tokens, settled)}</Link>;
}

function renderText(token: Tokens.Text, settled: boolean): ReactNode {
  return token.tokens === undefined ? decodeEntities(token.text) : renderTokens(token.tokens, settled);
}

function renderHeading(token: Tokens.Heading, settled: boolean): ReactNode {
  // Headings start below the page's h1.
  const Heading = `h${Math.min(token.depth + 1, 6)}` as "h2" | "h3" | "h4" | "h5" | "h6";
  return <Heading>{renderTokens(token.tokens, settled)}</Heading>;
}

function renderList(token: Tokens.List, settled: boolean): ReactNode {
  const items = token.items.map((item, index) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: the place in its list is all the identity an item has
    <li key={index} className={item.task ? "task" : undefined}>
      {item.task && <TaskMark done={item.checked === true} />}
      {renderTokens(item.tokens, settled)}
    </li>
  ));
  return token.ordered ? <ol start={Number(token.start) || 1}>{items}</ol> : <ul>{items}</ul>;
}

function TaskMark({ done }: { done: boolean }) {
  const strings = useStrings();
  const Icon = done ? SquareCheck : Square;
  return <Icon role="img" aria-label={done ? strings.taskDone : strings.taskOpen} data-done={done} />;
}

/** Number of characters from which a cell is a sentence. */
const LONG_CELL = 24;

function renderTable(token: Tokens.Table, settled: boolean): ReactNode {
  const cells = (row: readonly Tokens.TableCell[], Cell: "th" | "td") =>
    row.map((cell, column) => (
      <Cell
        // biome-ignore lint/suspicious/noArrayIndexKey: a column is its place
        key={column}
        style={cell.align === null ? undefined : { textAlign: cell.align }}
        data-long={cell.text.length >= LONG_CELL || undefined}
      >
        {renderTokens(cell.tokens, settled)}
      </Cell>
    ));
  return (
    <TableFrame>
      <table>
        <thead>
          <tr>{cells(token.header, "th")}</tr>
        </thead>
        <tbody>
          {token.rows.map((row, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: a row is its place
            <tr key={index}>{cells(row, "td")}</tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

/** Scrolls a wide table sideways. */
function TableFrame({ children }: { children: ReactNode }) {
  const strings = useStrings();
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is for forms
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a wide table must be scrollable by keyboard
    <div className="table-frame" role="group" aria-label={strings.table} tabIndex={0}>
      {children}
    </div>
  );
}
