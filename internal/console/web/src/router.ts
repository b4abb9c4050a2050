// The address after the hash: a path and a query.
import { Signal } from "./signal";

export interface Route { parts: string[]; query: URLSearchParams }

function read(): Route {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query) };
}

function decode(part: string): string {
  try { return decodeURIComponent(part); } catch { return part; }
}

export const route = new Signal<Route>(read());
let shown = location.hash, followed = 0; // the address of route, and the links that led to it
window.addEventListener("hashchange", () => { shown = location.hash; followed++; route.value = read(); });

/** The number of links that were followed. The event of the last one may be still to come. */
export function linksFollowed() { return location.hash === shown ? followed : followed + 1; }

/** Replaces values of the query without a new entry in the history. */
export function setQuery(changes: Record<string, string | undefined>) {
  const [path, old = ""] = location.hash.split("?");
  const query = new URLSearchParams(old);
  for (const [name, value] of Object.entries(changes)) if (value) query.set(name, value); else query.delete(name);
  const text = query.toString();
  history.replaceState(null, "", (path || "#/") + (text ? "?" + text : ""));
  shown = location.hash;
  route.value = read();
}

export function go(hash: string) { location.hash = hash; }
