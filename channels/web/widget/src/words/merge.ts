/** Words that a page replaces, some of them, at any depth. */

export type Changes<T> = { readonly [K in keyof T]?: T[K] extends string ? string : Changes<T[K]> };

type Tree = Readonly<Record<string, unknown>>;

/** Return *words* with *changes* in their places; what is not a text there, or no tree, changes nothing. */
export function merged<T extends object>(words: T, changes: Changes<T> | undefined): T {
  const made: Record<string, unknown> = { ...(words as Tree) };
  for (const [name, change] of Object.entries((changes ?? {}) as Tree)) {
    const known = made[name];
    if (typeof change === "string" ? known === undefined || typeof known === "string" : isTree(change) && typeof known !== "string") {
      made[name] = typeof change === "string" ? change : merged(isTree(known) ? known : {}, change as Changes<object>);
    }
  }
  return made as T;
}

function isTree(value: unknown): value is Tree {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
