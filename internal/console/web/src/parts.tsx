// Small components that pages share.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "./api";
import { age, when } from "./format";

export function Failure({ error, doing }: { error: Error; doing: string }) {
  return <div class="failure" role="alert"><strong>Cannot {doing}</strong><p>{error.message}</p>
    {error instanceof ApiError && error.code === 403 && <p>The user of this kubeconfig lacks the right. <a href="#/access">Access</a></p>}</div>;
}

export const Loading = () => <p class="loading" aria-busy="true">Loading…</p>;

/** The time since a moment; the moment itself is its title. It counts on. */
export function Age({ time }: { time?: string }) {
  const [, tick] = useState(0);
  useEffect(() => { const timer = setInterval(() => tick((n) => n + 1), 10_000); return () => clearInterval(timer); }, []);
  return <time dateTime={time} title={when(time)}>{age(time)}</time>;
}

export function Pill({ state, children }: { state: "good" | "bad" | "warn" | "idle"; children: ComponentChildren }) {
  return <span class={`pill ${state}`}>{children}</span>;
}

/** A dialog that Escape and its background close. */
export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => { element.current?.showModal(); }, []);
  return (
    <dialog ref={element} aria-label={title} onClose={onClose} onClick={(event) => { if (event.target === element.current) onClose(); }}>
      <h2>{title}</h2>{children}
    </dialog>
  );
}

const ROW = 34;

/** Shows the rows that are in view, for lists of any length, and tells when the last is. Rows have one height. */
export function VirtualList<T>({ items, row, keyOf, label, onEnd }: { items: T[]; row: (item: T, index: number) => ComponentChildren; keyOf: (item: T) => string; label: string; onEnd?: () => void }) {
  const element = useRef<HTMLDivElement>(null);
  const [range, setRange] = useState({ first: 0, last: 40 });
  useEffect(() => {
    const scroller = element.current?.closest<HTMLElement>(".scroller");
    const measure = () => {
      if (!element.current) return;
      const view = scroller ? scroller.getBoundingClientRect() : { top: 0, height: window.innerHeight };
      const top = element.current.getBoundingClientRect().top - view.top;
      const first = Math.max(0, Math.floor(-top / ROW) - 10);
      const last = Math.ceil((view.height - top) / ROW) + 10;
      setRange((before) => (before.first === first && before.last === last ? before : { first, last }));
    };
    measure();
    const target = scroller ?? window;
    target.addEventListener("scroll", measure, { passive: true });
    const resize = new ResizeObserver(measure);
    resize.observe(scroller ?? document.documentElement);
    return () => { target.removeEventListener("scroll", measure); resize.disconnect(); };
  }, [items.length]);
  useEffect(() => { if (onEnd && items.length > 0 && range.last >= items.length) onEnd(); }, [range.last, items.length]);
  const shown = items.slice(range.first, range.last);
  return (
    <div ref={element} class="virtual" role="rowgroup" aria-label={label} style={{ height: `${items.length * ROW}px` }}>
      <div style={{ transform: `translateY(${Math.min(range.first, items.length) * ROW}px)` }}>
        {shown.map((item, i) => <div key={keyOf(item)} class="row-slot">{row(item, range.first + i)}</div>)}
      </div>
    </div>
  );
}

/** Moves the focus among the links of a table by the arrow keys. */
export function moveFocus(event: KeyboardEvent) {
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const next = (row?: Element | null) => (event.key === "ArrowDown" ? row?.nextElementSibling : row?.previousElementSibling);
  let row = next((event.target as Element).closest(".row-slot"));
  while (row && !row.querySelector("a")) row = next(row);
  const link = row?.querySelector<HTMLElement>("a");
  if (link) { event.preventDefault(); link.focus(); link.scrollIntoView({ block: "nearest" }); }
}

/** A value of an input that is passed on when typing pauses. */
export function useDebounced(value: string, apply: (value: string) => void): [string, (value: string) => void] {
  const [text, setText] = useState(value);
  const timer = useRef<number | undefined>(undefined);
  useEffect(() => setText(value), [value]);
  return [text, (next) => {
    setText(next);
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => apply(next), 200);
  }];
}
