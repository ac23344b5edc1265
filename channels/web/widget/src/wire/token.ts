/** Where the visitor's token comes from, and how long it is good. */

export interface IssuedToken {
  readonly token: string;
  readonly expires_at?: string;
}

/** A page's own way to give a token. */
export type GetToken = () => Promise<string | IssuedToken>;

export interface TokenSource {
  /** Return the token to use now; null when none was configured. */
  get(): Promise<string | null>;
  /** Forget *used*, which the server has refused; a newer token stays. */
  drop(used: string | null): void;
}

export interface TokenOptions {
  readonly token: string | null;
  readonly url: string | null;
  readonly getToken: GetToken | null;
  readonly fetch: typeof fetch;
  readonly signal: AbortSignal;
  readonly now: () => number;
}

const EARLY = 30_000; // a token that ends within 30 s is renewed before it is used

/** Return a source that asks `getToken`, else `url`, else gives the fixed `token`; one question at a time. */
export function tokenSource(options: TokenOptions): TokenSource {
  const ask = options.getToken ?? (options.url === null ? null : () => fetchToken(options, options.url as string));
  if (!ask) return { get: () => Promise.resolve(options.token), drop: () => undefined };

  let held: { token: string; until: number } | null = null;
  let asking: Promise<string> | null = null;

  const renew = async (): Promise<string> => {
    const given = await ask();
    const issued = typeof given === "string" ? { token: given } : given;
    const until = issued.expires_at ? Date.parse(issued.expires_at) - EARLY : Infinity;
    held = { token: issued.token, until };
    return issued.token;
  };

  return {
    get() {
      if (held && options.now() < held.until) return Promise.resolve(held.token);
      asking ??= renew().finally(() => (asking = null));
      return asking;
    },
    drop(used) {
      if (held?.token === used) held = null;
    },
  };
}

async function fetchToken(options: TokenOptions, url: string): Promise<IssuedToken> {
  const response = await options.fetch(url, { credentials: "same-origin", cache: "no-store", signal: options.signal });
  if (!response.ok) throw Object.assign(new Error(`The token address answered ${response.status}.`), { status: response.status });
  return (await response.json()) as IssuedToken;
}
