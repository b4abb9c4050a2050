// Small components that pages share.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, connection, inView } from "./api";
import { age, when } from "./format";
import { linksFollowed } from "./router";
import { Signal, useSignal } from "./signal";

export function Failure({ error, doing }: { error: Error; doing: string }) {
  const state = useSignal(connection);
  // The banner says it once for the whole page.
  if (state !== "up" && error instanceof ApiError && (error.code === 0 || error.code === 502)) return <p class="muted">This part waits for the API server.</p>;
  return <div class="failure" role="alert"><strong>Cannot {doing}</strong><p>{error.message}</p>
    {error instanceof ApiError && error.code === 403 && <p>The user of this kubeconfig lacks the right. <a href="#/access">Access</a></p>}</div>;
}

export function Loading() {
  return useSignal(connection) === "up" ? <p class="loading" aria-busy="true">Loading…</p> : <p class="muted">This part waits for the API server.</p>;
}

/** Grows with the time that ages show. */
const ticks = new Signal(0);
setInterval(() => { if (inView.value) ticks.value++; }, 10_000);

/** The time since a moment; the moment itself is its title. It counts on. */
export function Age({ time, ago }: { time?: string; ago?: boolean }) {
  useSignal(ticks);
  return <time dateTime={time} title={when(time)}>{age(time, ago)}</time>;
}

export function Pill({ state, children }: { state: "good" | "bad" | "warn" | "idle"; children: ComponentChildren }) {
  return <span class={`pill ${state}`}>{children}</span>;
}

/** Gives the focus back to an element, or to the page if that is gone, unless another one has it. */
const restoreFocus = (element: Element | null) => setTimeout(() => {
  if (document.activeElement && document.activeElement !== document.body) return;
  const target = element?.isConnected ? element as HTMLElement : document.querySelector("main");
  target?.focus({ preventScroll: true });
});

/** A dialog that Escape and its background close. The focus returns to where it was. */
export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    element.current!.showModal();
    return () => { restoreFocus(before); };
  }, []);
  return (
    <dialog ref={element} aria-label={title} onCancel={(event) => { event.preventDefault(); onClose(); }} onClose={() => { if (element.current) onClose(); }} onClick={(event) => { if (event.target === element.current) onClose(); }}>
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
  // A row that is deleted passes the focus on to the one in its place.
  const focused = useRef<{ key: string; row: number } | undefined>(undefined);
  useEffect(() => {
    const was = focused.current;
    if (!was || (document.activeElement && document.activeElement !== document.body) || items.some((item) => keyOf(item) === was.key)) return;
    focused.current = undefined;
    const slot = element.current?.querySelector(`[data-row="${Math.min(was.row, items.length - 1)}"]`);
    restoreFocus((slot && focusable(slot)[0]) ?? null);
  }, [items]);
  useEffect(() => () => { if (focused.current) restoreFocus(null); }, []);
  const onFocusIn = (event: FocusEvent) => {
    const row = Number((event.target as Element).closest<HTMLElement>(".row-slot")?.dataset.row);
    focused.current = items[row] === undefined ? undefined : { row, key: keyOf(items[row]) };
  };
  const shown = items.slice(range.first, range.last);
  return (
    <div ref={element} class="virtual" role="rowgroup" aria-label={label} data-rows={items.length} onFocusIn={onFocusIn} onFocusOut={(event) => { if (event.relatedTarget) focused.current = undefined; }} style={{ height: `${items.length * ROW}px` }}>
      <div style={{ transform: `translateY(${Math.min(range.first, items.length) * ROW}px)` }}>
        {shown.map((item, i) => <div key={keyOf(item)} class="row-slot" data-row={range.first + i}>{row(item, range.first + i)}</div>)}
      </div>
    </div>
  );
}

const focusable = (row: Element) => [...row.querySelectorAll<HTMLElement>("a, input")].filter((element) => element.checkVisibility());

/** Moves the focus among the rows of a table by the arrows, by pages and to the ends; it stays in its column. */
export function moveFocus(event: KeyboardEvent) {
  const target = event.target as HTMLElement, slot = target.closest<HTMLElement>(".row-slot"), list = slot?.closest<HTMLElement>(".virtual");
  if (!slot || !list || event.ctrlKey || event.altKey || event.metaKey) return;
  const from = Number(slot.dataset.row), end = Number(list.dataset.rows) - 1;
  const page = Math.max(1, Math.floor(list.closest(".scroller")!.clientHeight / ROW) - 2);
  const to: number | undefined = ({ ArrowDown: from + 1, ArrowUp: from - 1, PageDown: from + page, PageUp: from - page, Home: 0, End: end } as Record<string, number>)[event.key];
  if (to === undefined) return;
  event.preventDefault();
  focusRow(list, Math.max(0, Math.min(end, to)), to < from ? -1 : 1, focusable(slot).indexOf(target));
}

/** Focuses a row, or the next one with something to focus. A row out of view is drawn first. */
function focusRow(list: HTMLElement, wanted: number, step: number, column: number, tries = 20) {
  const slot = list.querySelector<HTMLElement>(`[data-row="${wanted}"]`), scroller = list.closest(".scroller")!;
  if (!slot) {
    if (tries === 0) return;
    scroller.scrollTop = list.offsetTop + wanted * ROW - scroller.clientHeight / 2;
    requestAnimationFrame(() => focusRow(list, wanted, step, column, tries - 1));
    return;
  }
  const found = focusable(slot);
  if (found.length > 0) { found[Math.min(Math.max(column, 0), found.length - 1)].focus(); return; }
  const turn = wanted + step < 0 || wanted + step >= Number(list.dataset.rows) ? -step : step; // before the first heading is nothing
  focusRow(list, wanted + turn, turn, column, tries);
}

/** A value of an input that is passed on when typing pauses. */
export function useDebounced(value: string, apply: (value: string) => void): [string, (value: string) => void] {
  const [text, setText] = useState(value);
  const timer = useRef<number | undefined>(undefined);
  const applied = useRef(value);
  useEffect(() => () => clearTimeout(timer.current), []); // the next page has another address
  useEffect(() => {
    if (value === applied.current) return; // what was typed meanwhile is newer
    clearTimeout(timer.current); // a link was followed before typing paused
    applied.current = value;
    setText(value);
  }, [value]);
  return [text, (next) => {
    setText(next);
    clearTimeout(timer.current);
    const before = linksFollowed();
    timer.current = window.setTimeout(() => {
      if (linksFollowed() !== before) return; // what it leads to may not be shown yet, in a busy browser
      applied.current = next;
      apply(next);
    }, 200);
  }];
}
