/** Calls that the page executes: of all tabs that show them one at a time is asked to. */

export interface Asking {
  /** The same in every tab. */
  readonly name: string;
  /** Ask the page; whether it takes the call. */
  ask(): boolean;
  /** Ends the wait for another tab. */
  readonly waiting: AbortSignal;
  /** The tab that took the call keeps it until then. */
  readonly gone: AbortSignal;
}

/**
 * Ask the page, once no other tab has the call; a page that does not take it leaves it to the next tab.
 *
 * It is kept beyond its outcome: another tab may be slow to learn of that, and would execute it a second time.
 */
export async function askAlone(locks: LockManager | undefined, { name, ask, waiting, gone }: Asking): Promise<void> {
  if (!locks) return void ask(); // the page is not served securely
  let asked = false;
  const hold = (): Promise<void> | undefined => {
    asked = true;
    return ask() ? end(gone) : undefined;
  };
  try {
    await locks.request(name, { signal: waiting }, hold);
  } catch {
    if (!asked && !waiting.aborted) ask(); // a page without an origin has no locks either
  }
}

function end(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}
