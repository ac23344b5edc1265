/** The session id that a browser remembers, shared by its tabs. */

export interface Memory {
  load(): string | null;
  save(session: string | null): void;
  /** Call *changed* when another tab saves. */
  watch(changed: (session: string | null) => void, signal: AbortSignal): void;
}

/** Return a memory under *key*; where storage is forbidden it forgets when the page goes. */
export function browserMemory(key: string): Memory {
  let held: string | null = null;
  return {
    load: () => attempt(() => localStorage.getItem(key)) ?? held,
    save(session) {
      held = session;
      attempt(() => (session === null ? localStorage.removeItem(key) : localStorage.setItem(key, session)));
    },
    watch(changed, signal) {
      const listen = (event: StorageEvent): void => {
        if (event.key === key) changed(event.newValue);
      };
      addEventListener("storage", listen, { signal });
    },
  };
}

function attempt<T>(use: () => T): T | null {
  try {
    return use();
  } catch {
    return null;
  }
}
