// The objects of a type as the server's own table, page by page, live.
import { ApiError, TABLE, follow, get, type Metadata } from "./api";
import { Signal } from "./signal";

export interface Column { name: string; type: string; format: string; priority: number; description: string }
export interface Row { cells: unknown[]; object: { metadata: Metadata; status?: any } }
export interface Table { columnDefinitions: Column[] | null; rows: Row[] | null; metadata: { resourceVersion: string; continue?: string; remainingItemCount?: number } }

/** Rows of a page as it opens, and of each further one. */
export const PAGE = 500;
const MORE = 2000;

/** Keeps what the page shows of a row: of 100,000 objects, labels and managed fields would take most of the memory. */
function slim(row: Row): Row {
  const { name, namespace, uid, resourceVersion, creationTimestamp, deletionTimestamp, finalizers } = row.object.metadata;
  return { cells: row.cells, object: { metadata: { name, namespace, uid, resourceVersion, creationTimestamp, ...(deletionTimestamp && { deletionTimestamp }), ...(finalizers && { finalizers }) } } };
}

/** A table that follows its objects until it is closed. */
export class LiveTable {
  /** Grows whenever there is something new to draw. */
  readonly version = new Signal(0);
  columns: Column[] = [];
  rows = new Map<string, Row>();
  /** All objects, those that are not loaded included; at least so many if `exact` is false. */
  total = 0;
  /** Whether the server has said how many there are: with a label selector it does not. */
  exact = true;
  /** Continues the list; empty when all objects are loaded. */
  next = "";
  loading = true;
  /** Whether all pages are wanted. */
  greedy = false;
  error?: Error;
  /** How long the last drawing took, in milliseconds. Drawings take a quarter of the time at most. */
  cost = 0;
  private readonly abort = new AbortController();
  /** What the watch has deleted while pages are missing: a page is older than the watch. */
  private gone = new Set<string>();
  /** What the watch has changed and no page has brought yet. */
  private changed = new Map<string, Row>();
  private running?: Promise<boolean>;
  /** Grows with each new list; pages of an earlier one are dropped. */
  private round = 0;
  private timer = 0;

  /** `adapt` changes tables as they come from the server; it gets whole objects. */
  constructor(private readonly path: string, private readonly labels: string, watchable: boolean, private readonly adapt?: (table: Table) => void) {
    void follow<Table>({
      path, query: this.query(), accept: TABLE, watchable, load: () => this.list(),
      onEvent: ({ type, object }) => {
        this.adapt?.(object);
        const row = object.rows?.[0];
        if (!row?.object?.metadata) return undefined;
        if (type !== "BOOKMARK") this.change(type, row);
        return row.object.metadata.resourceVersion;
      },
      onError: (error) => { this.error = error; this.loading = false; this.draw(true); },
    }, this.abort.signal);
  }

  close() { this.abort.abort(); clearTimeout(this.timer); }

  private draw(now = false) {
    if (now) { clearTimeout(this.timer); this.timer = 0; this.version.value++; return; }
    if (this.timer) return;
    this.timer = window.setTimeout(() => { this.timer = 0; this.version.value++; }, Math.max(30, Math.min(3 * this.cost, 2000)));
  }

  private query() { return { labelSelector: this.labels, includeObject: this.adapt && "Object" }; }

  private async page(limit: number, next?: string): Promise<Table> {
    const page = await get<Table>(this.path, { accept: TABLE, query: { ...this.query(), limit, continue: next }, signal: this.abort.signal });
    this.adapt?.(page);
    return page;
  }

  /** Takes in a page of the list. */
  private take(page: Table) {
    if (page.columnDefinitions?.length) this.columns = page.columnDefinitions;
    for (const row of page.rows ?? []) {
      const { uid } = row.object.metadata;
      // What the watch has told is newer than this page.
      if (!this.rows.has(uid) && !this.gone.has(uid)) this.rows.set(uid, this.changed.get(uid) ?? slim(row));
      this.changed.delete(uid);
    }
    this.next = page.metadata.continue ?? "";
    this.exact = !this.next || page.metadata.remainingItemCount !== undefined;
    if (!this.exact) this.total = Math.max(this.total, this.rows.size);
    if (!this.next) { this.total = this.rows.size; this.gone.clear(); this.changed.clear(); }
  }

  /** Loads the next page; false if there is none or it cannot be loaded. */
  more(): Promise<boolean> {
    return this.running ??= this.loadMore().finally(() => { this.running = undefined; });
  }

  private async loadMore(): Promise<boolean> {
    if (!this.next) return false;
    const round = this.round;
    this.loading = true;
    this.draw(true);
    let done = true;
    try {
      const page = await this.page(MORE, this.next);
      if (round === this.round) this.take(page);
      this.error = undefined;
    } catch (error) {
      // A list whose token has expired goes on where it was.
      if (round === this.round && error instanceof ApiError && error.code === 410 && error.next) this.next = error.next;
      else { done = false; this.error = error as Error; }
    }
    this.loading = false;
    this.draw(true);
    return done && !this.abort.signal.aborted;
  }

  /** Loads all pages, unless it is stopped by `greedy`. */
  async all(): Promise<void> {
    this.greedy = true;
    while (this.greedy && await this.more());
    this.greedy = false;
    this.draw(true);
  }

  /** Lists anew, as many objects as were loaded. */
  private async list(): Promise<string> {
    const wanted = this.rows.size;
    const first = await this.page(PAGE);
    this.round++;
    this.rows = new Map();
    this.gone.clear();
    this.changed.clear();
    this.take(first);
    this.total = this.rows.size + (first.metadata.remainingItemCount ?? 0);
    this.error = undefined;
    this.loading = false;
    this.draw(true);
    while (this.rows.size < wanted && await this.more());
    return first.metadata.resourceVersion;
  }

  private change(type: string, row: Row) {
    const { uid } = row.object.metadata;
    if (type === "DELETED") {
      if (this.next) { this.gone.add(uid); this.changed.delete(uid); }
      this.rows.delete(uid);
      this.total = Math.max(this.rows.size, this.total - 1);
    } else {
      if (type === "ADDED" && !this.rows.has(uid)) this.total++;
      if (type === "ADDED" || !this.next || this.rows.has(uid)) this.rows.set(uid, slim(row));
      else this.changed.set(uid, slim(row));
    }
    this.draw();
  }
}

/** A cell as text. */
export const cellText = (value: unknown): string => value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);

const collator = new Intl.Collator(undefined, { numeric: true });
const compare = (a: unknown, b: unknown): number => (typeof a === "number" && typeof b === "number" ? a - b : collator.compare(cellText(a), cellText(b)));
const byKey = (a = "", b = "") => (a < b ? -1 : a > b ? 1 : 0);

/** Whether a column is the age of the object: kubectl's own is "Age", those of many CRDs are "AGE". */
export const isAge = (column: { name: string; type: string; format: string }) => column.name.toLowerCase() === "age" && !column.format && (column.type === "string" || column.type === "date");

/** The rows that contain a text, in an order: by a column, or by namespace and name. */
export function arrange(table: LiveTable, filter: string, sort: string, descending: boolean): Row[] {
  let rows = [...table.rows.values()];
  if (filter) rows = rows.filter((row) => row.cells.some((cell) => cellText(cell).toLowerCase().includes(filter)) || row.object.metadata.namespace?.includes(filter));
  const index = table.columns.findIndex((column) => column.name === sort);
  const meta = (row: Row) => row.object.metadata;
  if (index >= 0 && isAge(table.columns[index])) rows.sort((a, b) => -byKey(meta(a).creationTimestamp, meta(b).creationTimestamp));
  else if (sort === "Namespace" || index < 0) rows.sort((a, b) => byKey(meta(a).namespace, meta(b).namespace) || byKey(meta(a).name, meta(b).name));
  else rows.sort((a, b) => compare(a.cells[index], b.cells[index]));
  return descending ? rows.reverse() : rows;
}
