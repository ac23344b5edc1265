/** The login: a cookie that no script can read, and the short tokens that it gives. */

import type { Person } from "../log/events.js";
import { problemOf } from "../wire/problem.js";
import { tokenSource, type TokenSource } from "../wire/token.js";

/** Who is logged in, and what their key may do. */
export interface Operator {
  readonly actor: Person;
  readonly scopes: readonly string[];
}

export interface AccessOptions {
  readonly fetch: typeof fetch;
  readonly signal: AbortSignal;
  readonly now: () => number;
  /** A token came, with what the key may do now. */
  readonly known: (operator: Operator) => void;
  /** There is no login any more. */
  readonly ended: () => void;
}

export interface Access {
  readonly tokens: TokenSource;
  logIn(key: string): Promise<void>;
  logOut(): Promise<void>;
}

interface Issued extends Operator {
  readonly token: string;
  readonly expires_at: string;
}

/** Return the access of this page; its tokens are held in memory alone. */
export function createAccess({ fetch: ask, signal, now, known, ended }: AccessOptions): Access {
  const post = async (path: string, body?: object): Promise<Response> => {
    const headers = { "Content-Type": "application/json" };
    const response = await ask(`/operator/${path}`, {
      method: "POST", credentials: "same-origin", cache: "no-store", signal, ...(body && { headers, body: JSON.stringify(body) }),
    });
    if (!response.ok) throw await problemOf(response);
    return response;
  };
  const getToken = async (): Promise<Issued> => {
    try {
      const issued = (await (await post("token")).json()) as Issued;
      known({ actor: issued.actor, scopes: issued.scopes });
      return issued;
    } catch (error) {
      if ((error as { status?: number }).status === 401) ended();
      throw error;
    }
  };
  return {
    tokens: tokenSource({ token: null, url: null, getToken, fetch: ask, signal, now }),
    async logIn(key) {
      await post("login", { key });
    },
    async logOut() {
      await post("logout");
    },
  };
}
