// YAML in an editor: read, write, compare.
import { autocompletion, completionKeymap, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { codeFolding, foldAll, forceParsing, foldGutter, foldKeymap, HighlightStyle, indentOnInput, syntaxHighlighting, unfoldAll } from "@codemirror/language";
import { linter, lintGutter, lintKeymap, type Diagnostic } from "@codemirror/lint";
import { diff, unifiedMergeView } from "@codemirror/merge";
import { highlightSelectionMatches, openSearchPanel, search, searchKeymap } from "@codemirror/search";
import { EditorState, Prec, type Extension } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef, useState } from "preact/hooks";
import { parseDocument, isMap, isScalar, isSeq, type Node as YamlNode } from "yaml";
import { at, check, childrenOf, type Schema } from "./openapi";

const colors = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--key)" },
  { tag: [tags.string, tags.content], color: "var(--text)" },
  { tag: [tags.comment, tags.lineComment], color: "var(--muted)" },
  { tag: [tags.keyword, tags.bool, tags.number, tags.null], color: "var(--accent)" },
  { tag: [tags.punctuation, tags.separator, tags.meta], color: "var(--muted)" },
]);

const nonce = () => document.querySelector<HTMLMetaElement>("meta[name=nonce]")?.content ?? "";

const base: Extension = [
  EditorView.cspNonce.of(nonce()), lineNumbers(), codeFolding(), foldGutter(), drawSelection(), highlightSelectionMatches(), search({ top: true }),
  yaml(), syntaxHighlighting(colors), EditorView.lineWrapping, EditorState.tabSize.of(2),
  keymap.of([...searchKeymap, ...foldKeymap, ...defaultKeymap]),
];

/** Shows text that cannot be changed, with folding and search. */
export function YamlView({ text, label }: { text: string; label: string }) {
  const parent = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | undefined>(undefined);
  useEffect(() => {
    view.current = new EditorView({ parent: parent.current!, doc: text, extensions: [base, EditorState.readOnly.of(true), EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" })] });
    return () => view.current?.destroy();
  }, []);
  useEffect(() => {
    const before = view.current?.state.doc.toString();
    if (before === undefined || before === text) return;
    // Only what differs: the rest stays folded and where it is.
    const changes = diff(before, text, { scanLimit: 500 }).map((change) => ({ from: change.fromA, to: change.toA, insert: text.slice(change.fromB, change.toB) }));
    view.current!.dispatch({ changes });
  }, [text]);
  return (
    <div class="editor">
      <div class="toolbar small">
        <button onClick={() => { view.current?.focus(); openSearchPanel(view.current!); }}>Search</button>
        <button onClick={() => { forceParsing(view.current!, text.length, 1000); foldAll(view.current!); }}>Fold all</button><button onClick={() => unfoldAll(view.current!)}>Unfold all</button>
        <CopyButton text={text} />
      </div>
      <div ref={parent} />
    </div>
  );
}

/** Copies a text, and tells whether the browser has let it. */
function CopyButton({ text }: { text: string }) {
  const [word, setWord] = useState("Copy");
  useEffect(() => {
    if (word === "Copy") return;
    const timer = setTimeout(() => setWord("Copy"), 2000);
    return () => clearTimeout(timer);
  }, [word]);
  return <button aria-live="polite" onClick={() => navigator.clipboard.writeText(text).then(() => setWord("Copied"), () => setWord("Cannot copy"))}>{word}</button>;
}

/** Edits YAML, with completion and errors of a schema, and tells each change of the text. */
export function YamlEditor({ initial, schema, onChange, onReview }: { initial: string; schema: Schema | undefined; onChange: (text: string) => void; onReview: () => void }) {
  const parent = useRef<HTMLDivElement>(null);
  const known = useRef(schema);
  known.current = schema;
  useEffect(() => {
    const view = new EditorView({
      parent: parent.current!, doc: initial,
      extensions: [
        base, history(), indentOnInput(), highlightActiveLine(), lintGutter(),
        Prec.highest(keymap.of([{ key: "Mod-Enter", run: () => { onReview(); return true; } }])),
        keymap.of([...completionKeymap, ...historyKeymap, ...lintKeymap, indentWithTab]),
        autocompletion({ override: [(context) => complete(context, known.current)] }),
        linter((view) => diagnostics(view.state.doc.toString(), known.current), { delay: 300 }),
        EditorView.updateListener.of((update) => { if (update.docChanged) onChange(update.state.doc.toString()); }),
        EditorView.contentAttributes.of({ "aria-label": "YAML", "aria-describedby": "editor-keys" }),
      ],
    });
    view.focus();
    return () => view.destroy();
  }, []);
  return <>
    <div class="editor" ref={parent} />
    <p id="editor-keys" class="muted keys">Tab indents; <kbd>Escape</kbd> and then <kbd>Tab</kbd> leaves the editor. <kbd>Ctrl</kbd> <kbd>Space</kbd> completes, <kbd>{/Mac|iPhone|iPad/.test(navigator.platform) ? "⌘" : "Ctrl"}</kbd> <kbd>Enter</kbd> reviews.</p>
  </>;
}

/** Shows what differs between two texts. */
export function YamlDiff({ before, after }: { before: string; after: string }) {
  const parent = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const view = new EditorView({
      parent: parent.current!, doc: after,
      extensions: [base, EditorState.readOnly.of(true), unifiedMergeView({ original: before, mergeControls: false, highlightChanges: true, collapseUnchanged: { margin: 3, minSize: 6 } }), EditorView.contentAttributes.of({ "aria-label": "changes" })],
    });
    return () => view.destroy();
  }, [before, after]);
  return <div class="editor diff" ref={parent} />;
}

/** The keys above a position, by indentation; sequences are "[]". */
export function pathAt(lines: string[], line: number, column: number): string[] {
  const path: string[] = [];
  let indent = column;
  for (let i = line - 1; i >= 0 && indent > 0; i--) {
    const match = /^(\s*)((?:-\s+)*)([^\s:#][^:]*):(?:\s|$)/.exec(lines[i]);
    const bare = /^(\s*)((?:-\s+)+)/.exec(lines[i]);
    if (match) {
      const key = match[1].length + match[2].length;
      if (match[2] && key <= indent && match[1].length < indent) {
        if (key < indent) path.unshift(match[3].trim());
        path.unshift("[]");
        indent = match[1].length;
        // A sequence may have the indentation of its key.
        for (let j = i - 1; j >= 0; j--) {
          const parent = /^(\s*)([^\s:#-][^:]*):\s*$/.exec(lines[j]);
          if (parent && parent[1].length <= indent) { path.unshift(parent[2].trim()); indent = parent[1].length; i = j; break; }
        }
      } else if (!match[2] && key < indent) { path.unshift(match[3].trim()); indent = key; }
    } else if (bare && bare[1].length < indent) { path.unshift("[]"); indent = bare[1].length; }
  }
  return path;
}

function complete(context: CompletionContext, schema: Schema | undefined): CompletionResult | null {
  if (!schema) return null;
  const line = context.state.doc.lineAt(context.pos);
  const lines = context.state.doc.toString().split("\n");
  const before = line.text.slice(0, context.pos - line.from);
  const value = /^(\s*(?:-\s+)*)([^\s:#][^:]*):\s+(\S*)$/.exec(before);
  if (value) {
    const target = at(schema, [...pathAt(lines, line.number - 1, value[1].length), value[2].trim()]);
    const options = target?.enum ?? (target?.type === "boolean" ? [true, false] : []);
    return options.length ? { from: context.pos - value[3].length, options: options.map((option: unknown) => ({ label: String(option), type: "enum" })) } : null;
  }
  const key = /^(\s*(?:-\s+)*)(\S*)$/.exec(before);
  if (!key || (!context.explicit && !key[2])) return null;
  const dash = /-\s+/.test(key[1]);
  const path = pathAt(lines, line.number - 1, dash ? key[1].indexOf("-") + 1 : key[1].length);
  const target = at(schema, dash && path[path.length - 1] !== "[]" ? [...path, "[]"] : path);
  const options = childrenOf(target).map(([name, child]) => ({
    label: name, type: "property", detail: child.type, info: child.description?.slice(0, 300),
    apply: child.type === "object" || child.type === "array" ? `${name}:` : `${name}: `,
  }));
  return options.length ? { from: context.pos - key[2].length, options } : null;
}

function diagnostics(text: string, schema: Schema | undefined): Diagnostic[] {
  const document = parseDocument(text);
  const found: Diagnostic[] = document.errors.map((error) => ({ from: error.pos[0], to: Math.min(error.pos[1], text.length), severity: "error", message: error.message }));
  if (found.length > 0 || !schema) return found;
  for (const problem of check(schema, document.toJS())) {
    const [from, to] = rangeOf(document.contents, problem.path) ?? [0, 0];
    found.push({ from, to: Math.min(to, text.length), severity: "error", message: problem.message });
  }
  return found;
}

/** Where a path is in the text: its key, else the nearest parent. */
function rangeOf(node: YamlNode | null, path: (string | number)[]): [number, number] | undefined {
  let range: [number, number] | undefined;
  for (const part of path) {
    if (isMap(node)) {
      const pair: any = node.items.find((item: any) => isScalar(item.key) && item.key.value === part);
      if (!pair) return range;
      range = [pair.key.range[0], pair.key.range[1]];
      node = pair.value;
    } else if (isSeq(node)) {
      node = node.items[Number(part)] as YamlNode;
      if (node?.range) range = [node.range[0], node.range[0] + 1];
    } else return range;
  }
  return range;
}
