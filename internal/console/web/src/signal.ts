// A value that components follow.
import { useEffect, useState } from "preact/hooks";

export class Signal<T> {
  private listeners = new Set<() => void>();
  constructor(private current: T) {}
  get value(): T { return this.current; }
  set value(next: T) {
    if (Object.is(next, this.current)) return;
    this.current = next;
    for (const listener of [...this.listeners]) listener();
  }
  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => { this.listeners.delete(listener); };
  }
}

/** Returns the signal's value and renders the component again when it changes. */
export function useSignal<T>(signal: Signal<T>): T {
  const [, render] = useState(0);
  const { value } = signal;
  useEffect(() => {
    const leave = signal.subscribe(() => render((n) => n + 1));
    if (!Object.is(signal.value, value)) render((n) => n + 1); // between the rendering and this effect
    return leave;
  }, [signal]);
  return value;
}

export type Loaded<T> = { data?: T; error?: Error };

/** Loads a value, again when a dependency changes, and forgets answers that are out of date. */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, dependencies: unknown[]): Loaded<T> & { reload: () => void } {
  const [state, set] = useState<Loaded<T>>({});
  const [round, setRound] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    load(abort.signal).then(
      (data) => { if (!abort.signal.aborted) set({ data }); },
      (error) => { if (!abort.signal.aborted) set((before) => ({ data: before.data, error })); },
    );
    return () => abort.abort();
  }, [...dependencies, round]);
  return { ...state, reload: () => setRound((n) => n + 1) };
}
