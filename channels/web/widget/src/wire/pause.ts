/** Waiting that ends early when there is reason to. */

/** Sleep for *milliseconds*, or until *signal* aborts, the network returns or the page is looked at again. */
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
    globalThis.addEventListener?.("online", wake, { signal: over.signal });
    globalThis.document?.addEventListener("visibilitychange", wake, { signal: over.signal });
  });
}
