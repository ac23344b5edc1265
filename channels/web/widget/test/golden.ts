/** The golden logs that every fold of the project is fed. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Frame } from "../src/log/events.js";
import { reduce } from "../src/log/reduce.js";
import { EMPTY, textOf, type ViewState } from "../src/log/state.js";

declare const GOLDEN: string; // set by scripts/test.mjs

export interface Expected {
  readonly transcript: readonly { role: string; text: string; partial?: true }[];
  readonly runs: Readonly<Record<string, string>>;
  /** Status, arguments and who decided. */
  /** Call, kind, title and text of what tools have shown. */
  readonly renders?: Readonly<Record<string, readonly [string, string, string | null, string]>>;
  readonly approvals?: Readonly<Record<string, readonly [string, unknown, string | null]>>;
}

export const names = readdirSync(GOLDEN).filter((name) => name.endsWith(".jsonl")).map((name) => name.slice(0, -6));

export function framesOf(name: string): Frame[] {
  const lines = readFileSync(join(GOLDEN, `${name}.jsonl`), "utf8").split("\n").filter(Boolean);
  return lines.map((line) => JSON.parse(line) as Frame);
}

export function expectedOf(name: string): Expected {
  return JSON.parse(readFileSync(join(GOLDEN, `${name}.expected.json`), "utf8")) as Expected;
}

export function fold(frames: readonly Frame[], from: ViewState = EMPTY): ViewState {
  return frames.reduce(reduce, from);
}

/** Return what the three folds must agree on. */
export function summary(state: ViewState): Expected {
  const transcript = state.messages.map(({ role, parts, partial }) => ({ role, text: textOf(parts), ...(partial && { partial }) }));
  const approvals = state.calls.flatMap(({ approval }) => (approval ? [[approval.id, [approval.status, approval.arguments, approval.by?.id ?? null]]] : []));
  const seen = { transcript: transcript as Expected["transcript"], runs: Object.fromEntries(state.runs.map(({ id, status }) => [id, status])) };
  const renders = state.renders.map(({ id, call, kind, title = null, text }) => [id, [call, kind, title, text]]);
  return {
    ...seen,
    ...(approvals.length && { approvals: Object.fromEntries(approvals) }),
    ...(renders.length && { renders: Object.fromEntries(renders) }),
  };
}
