/** What can go wrong between the widget and the server, as one kind of error. */

import type { Fault } from "../log/events.js";

export interface Problem extends Error {
  /** 0 when no answer came at all. */
  readonly status: number;
  readonly code: string;
  /** In seconds, when the server said how long to wait. */
  readonly retryAfter: number | null;
  /** Which fields of the request are wrong, and why. */
  readonly errors: readonly Fault[];
}

/** Return the problem that *response* reports, whether or not its body is problem+json. */
export async function problemOf(response: Response): Promise<Problem> {
  return problemIn(response.status, await response.json().catch(() => ({})), response.headers.get("Retry-After"));
}

/** Return the problem of an answer with *status* and *body*; *wait* is its header `Retry-After`. */
export function problemIn(status: number, body: Readonly<Record<string, unknown>>, wait: string | null): Problem {
  const text = [body["detail"], body["title"]].find((each) => typeof each === "string" && each);
  const errors = Array.isArray(body["errors"]) ? (body["errors"] as Fault[]) : [];
  const code = typeof body["code"] === "string" ? body["code"] : "unknown";
  return problem(status, code, String(text ?? ""), Number(wait ?? NaN), errors);
}

/** Return *error* as a problem: what is not one means that the server was not reached. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Error && "status" in error && "code" in error) return error as Problem;
  const status = error instanceof Error && "status" in error ? Number(error.status) : 0;
  return problem(status, status ? "token" : "network", error instanceof Error ? error.message : String(error));
}

/** Return whether the same request may succeed a little later. */
export function isPassing({ status }: Problem): boolean {
  return status === 0 || status === 429 || status >= 500;
}

/** Return whether the server has read a message and does not take it as it is. */
export function isRefusal({ status }: Problem): boolean {
  return status >= 400 && status < 500 && status !== 401 && status !== 404;
}

/** Return the problem of a server that does not let this page's origin in. */
export function refused(): Problem {
  return problem(403, "origin", "The server does not let pages of this origin in.");
}

/** Return whether it is this page that could not read what the server said: a message may have arrived. */
export function isUnread({ code }: Problem): boolean {
  return code === "origin";
}

function problem(status: number, code: string, message: string, wait = NaN, errors: readonly Fault[] = []): Problem {
  return Object.assign(new Error(message), { status, code, retryAfter: Number.isFinite(wait) ? wait : null, errors });
}
