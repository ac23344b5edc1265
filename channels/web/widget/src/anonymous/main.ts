/** The chunk of visitors without a name: a token for one who is known by a secret of this browser alone. */

import { problemOf, type Problem } from "../wire/problem.js";
import type { IssuedToken } from "../wire/token.js";

/** Milliseconds that another tab is waited for. */
const LONGEST = 5_000;

interface Anonymous extends IssuedToken {
  readonly secret: string;
}

/** Return a token for the visitor of this browser; *key* names what belongs to the server and agent. */
export function anonymousToken(server: string, agent: string | null, key: string): Promise<IssuedToken> {
  const place = `${key}:visitor`;
  return alone(`parley-chat ${place}`, () => issue(server, agent, place));
}

/** Ask with the secret that is kept in *place*, and keep what comes. */
async function issue(server: string, agent: string | null, place: string): Promise<IssuedToken> {
  const ask = async (secret: string | null): Promise<Anonymous> => {
    const response = await fetch(`${server}/v1/web/anonymous`, {
      method: "POST",
      credentials: "omit",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ ...(agent !== null && { agent }), ...(secret !== null && { secret }) }),
    });
    if (!response.ok) throw await problemOf(response);
    return (await response.json()) as Anonymous;
  };
  const kept = attempt(() => localStorage.getItem(place));
  const { secret, ...issued } = await ask(kept).catch((error: Problem) => {
    if (kept === null || error.code !== "secret_refused") throw error;
    // It will never hold again: it gives way to a new one, with a new visitor.
    attempt(() => localStorage.removeItem(place));
    return ask(null);
  });
  attempt(() => localStorage.setItem(place, secret));
  return issued;
}

/** Do *what* while no other tab does it: two that are opened at once are one visitor. Where there are no locks, and after a long wait, at once. */
async function alone<T>(name: string, what: () => Promise<T>): Promise<T> {
  const locks = globalThis.navigator?.locks as LockManager | undefined; // missing on pages that are not served securely
  if (!locks) return what();
  let isBegun = false;
  try {
    return await locks.request(name, { signal: AbortSignal.timeout(LONGEST) }, () => ((isBegun = true), what()));
  } catch (error) {
    if (isBegun) throw error;
    return what(); // a page without an origin has no locks either
  }
}

/** Where storage is forbidden the visitor is a new one with each page. */
function attempt<T>(use: () => T): T | null {
  try {
    return use();
  } catch {
    return null;
  }
}
