/** Waiting that ends early when there is reason to, as after a sleep of the machine. */

/** Call *wake* when the network returns, the page is looked at again, or comes back from a cache or a sleep; until *signal* aborts. */
export function onWake(wake: () => void, signal: AbortSignal): void {
  for (const name of ["online", "pageshow"]) globalThis.addEventListener?.(name, wake, { signal });
  for (const name of ["visibilitychange", "resume"]) globalThis.document?.addEventListener(name, wake, { signal });
}

/** Sleep for *milliseconds*, or until *signal* aborts or there is reason to wake up. */
export function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const over = new AbortController();
    const wake = (): void => {
      clearTimeout(timer);
      over.abort();
      resolve();
    };
    const timer = setTimeout(wake, milliseconds);
    if (signal.aborted) return wake();
    signal.addEventListener("abort", wake, { signal: over.signal });
    onWake(wake, over.signal);
  });
}
