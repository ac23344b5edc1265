/** The chunk of visitors without a name: a token for one who is known by a secret of this browser alone. */

import { problemOf, type Problem } from "../wire/problem.js";
import type { IssuedToken } from "../wire/token.js";

interface Anonymous extends IssuedToken {
  readonly secret: string;
}

/** Return a token for the visitor of this browser; *key* names what belongs to the server and agent. */
export async function anonymousToken(server: string, agent: string | null, key: string): Promise<IssuedToken> {
  const place = `${key}:visitor`;
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

/** Where storage is forbidden the visitor is a new one with each page. */
function attempt<T>(use: () => T): T | null {
  try {
    return use();
  } catch {
    return null;
  }
}
