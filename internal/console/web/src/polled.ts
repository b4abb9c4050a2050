// Values that are loaded again and again.
import { useEffect, useRef, useState } from "preact/hooks";
import { pause, whileInView } from "./api";
import type { Loaded } from "./signal";

/** The pause between two loads of a page, in milliseconds. */
export const EVERY = 5000;

/** Loads a value while the page is in view, again after a pause, and at once when a dependency changes. A failure keeps the value before. `pauseAfter` is the pause after a load that took so long, in milliseconds. */
export function usePolled<T>(load: (signal: AbortSignal) => Promise<T>, dependencies: unknown[] = [], pauseAfter = (_took: number) => EVERY): Loaded<T> {
  const [state, set] = useState<Loaded<T>>({});
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    const abort = new AbortController();
    void whileInView(abort.signal, async (shown) => {
      while (!shown.aborted) {
        const begun = performance.now();
        try {
          const data = await latest.current(shown);
          if (!shown.aborted) set({ data });
        } catch (error) {
          if (!shown.aborted) set((before) => ({ data: before.data, error: error as Error }));
        }
        await pause(pauseAfter(performance.now() - begun), shown);
      }
    });
    return () => abort.abort();
  }, dependencies);
  return state;
}
