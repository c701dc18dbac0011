/** Code editor and viewer, loaded on first use. */

import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { css } from "@codemirror/lang-css";
import { html } from "@codemirror/lang-html";
import { javascript } from "@codemirror/lang-javascript";
import { json } from "@codemirror/lang-json";
import { markdown } from "@codemirror/lang-markdown";
import { python } from "@codemirror/lang-python";
import { HighlightStyle, type LanguageSupport, syntaxHighlighting } from "@codemirror/language";
import { EditorState, type Extension } from "@codemirror/state";
import { drawSelection, EditorView, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useEffectEvent, useRef } from "react";

interface Props {
  /** Initial text; uncontrolled. */
  readonly text: string;
  /** File extension for highlighting. */
  readonly ending: string;
  readonly label: string;
  readonly readOnly?: boolean;
  readonly onChange?: (text: string) => void;
}

export default function CodeEditor({ text, ending, label, readOnly = false, onChange }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const notify = useEffectEvent((text: string) => onChange?.(text));

  useEffect(() => {
    if (host.current === null) return;
    // In a shadow root CodeMirror uses adopted style sheets; the CSP forbids style elements.
    const root = host.current.shadowRoot ?? host.current.attachShadow({ mode: "open" });
    const view = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: text,
        extensions: [
          lineNumbers(),
          history(),
          drawSelection(),
          EditorView.lineWrapping,
          EditorState.readOnly.of(readOnly),
          EditorView.editable.of(!readOnly),
          EditorView.contentAttributes.of({ "aria-label": label, ...(readOnly && { tabindex: "0" }) }),
          keymap.of([...defaultKeymap, ...historyKeymap]),
          syntaxHighlighting(COLOURS),
          languageOf(ending),
          LOOK,
          EditorView.updateListener.of((update) => {
            if (update.docChanged) notify(update.state.doc.toString());
          }),
        ],
      }),
    });
    return () => view.destroy();
  }, [text, ending, label, readOnly]);

  return <div ref={host} className="min-h-0 flex-1 overflow-hidden" />;
}

const LANGUAGES: Readonly<Record<string, () => LanguageSupport>> = {
  css,
  html,
  htm: html,
  svg: html,
  js: javascript,
  jsx: () => javascript({ jsx: true }),
  ts: () => javascript({ typescript: true }),
  tsx: () => javascript({ jsx: true, typescript: true }),
  json,
  // Underlined headings would take the header of a skill for one.
  md: () => markdown({ extensions: { remove: ["SetextHeading"] } }),
  py: python,
};

function languageOf(ending: string): Extension {
  return LANGUAGES[ending]?.() ?? [];
}

const LOOK = EditorView.theme({
  "&": { height: "100%", fontSize: "0.8125rem", color: "var(--ink)", backgroundColor: "transparent" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": {
    fontFamily: "var(--font-mono)",
    fontVariantLigatures: "none",
    lineHeight: "1.6",
    overflow: "auto",
  },
  ".cm-content": { padding: "12px 0", caretColor: "var(--ink)" },
  ".cm-content:focus-visible": { outline: "none" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--ink-faint)", border: "none" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--tint-strong)",
  },
});

const COLOURS = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.tagName], color: "var(--code-keyword)" },
  { tag: [tags.string, tags.regexp, tags.attributeValue], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: "var(--code-number)" },
  {
    tag: [
      tags.definition(tags.variableName),
      tags.function(tags.variableName),
      tags.propertyName,
      tags.heading,
    ],
    color: "var(--code-name)",
  },
  { tag: tags.heading, fontWeight: "600" },
  { tag: tags.strong, fontWeight: "600" },
  { tag: tags.emphasis, fontStyle: "italic" },
  { tag: [tags.comment, tags.meta, tags.processingInstruction], color: "var(--ink-faint)" },
  { tag: [tags.link, tags.url], color: "var(--accent)" },
]);
