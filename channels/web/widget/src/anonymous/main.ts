/** The chunk of visitors without a name: a token for one who is known by a secret of this browser alone. */

import { problemOf } from "../wire/problem.js";
import type { IssuedToken } from "../wire/token.js";

interface Anonymous extends IssuedToken {
  readonly secret: string;
}

/** Return a token for the visitor of this browser; *key* names what belongs to the server and agent. */
export async function anonymousToken(server: string, agent: string | null, key: string): Promise<IssuedToken> {
  const place = `${key}:visitor`;
  const ask = (secret: string | null): Promise<Response> =>
    fetch(`${server}/v1/web/anonymous`, {
      method: "POST",
      credentials: "omit",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ ...(agent !== null && { agent }), ...(secret !== null && { secret }) }),
    });
  const kept = attempt(() => localStorage.getItem(place));
  let response = await ask(kept);
  // A secret that does not hold any more gives way to a new one, with a new visitor.
  if (kept !== null && (response.status === 403 || response.status === 422)) response = await ask(null);
  if (!response.ok) throw await problemOf(response);
  const { secret, ...issued } = (await response.json()) as Anonymous;
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
