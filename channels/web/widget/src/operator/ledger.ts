/** What operators see of a log besides the conversation: who said what when, and what each run has used. */

import type { Frame, Person } from "../events.js";

export interface Usage {
  readonly input: number | null;
  readonly output: number | null;
  readonly reasoning: number | null;
  readonly cache_read: number | null;
  readonly cache_write_short: number | null;
  readonly cache_write_long: number | null;
}

export interface Said {
  readonly person: Person | null;
  /** RFC 3339. */
  readonly time: string;
}

export interface Spent {
  readonly usage: Usage;
  /** In USD as a decimal, null where no price is known. */
  readonly cost: string | null;
  readonly steps: number;
  /** Why it failed, in words for operators. */
  readonly detail: string | null;
}

export interface Ledger {
  readonly seq: number;
  readonly said: ReadonlyMap<string, Said>;
  readonly runs: ReadonlyMap<string, Spent>;
}

export const NO_LEDGER: Ledger = { seq: 0, said: new Map(), runs: new Map() };
const NOTHING: Usage = { input: null, output: null, reasoning: null, cache_read: null, cache_write_short: null, cache_write_long: null };
const FRESH: Spent = { usage: NOTHING, cost: null, steps: 0, detail: null };

interface Body {
  readonly message?: string;
  readonly actor?: Person;
  readonly usage?: Usage;
  readonly cost?: string | null;
  readonly detail?: string | null;
}

/** Fold *frame* into *ledger*; a fact that is in it changes nothing. */
export function note(ledger: Ledger, frame: Frame): Ledger {
  if (frame.seq === undefined || frame.seq <= ledger.seq) return ledger;
  const next = { ...ledger, seq: frame.seq };
  const { message, actor, usage, cost = null, detail = null } = frame.data as Body;
  switch (frame.type) {
    case "message.received":
    case "message.completed":
      return message === undefined ? next : { ...next, said: new Map(ledger.said).set(message, { person: actor ?? null, time: frame.time }) };
    case "step.completed":
      return spend(next, frame.run, ({ usage: before, cost: sum, steps }) => ({ usage: added(before, usage), cost: total(sum, cost, steps), steps: steps + 1 }));
    case "run.completed":
      return spend(next, frame.run, ({ usage: before }) => ({ usage: usage ?? before, cost }));
    case "run.failed":
      return spend(next, frame.run, () => ({ detail }));
    default:
      return next;
  }
}

/** Return what all runs of *ledger* have cost, null where the price of one is not known. */
export function costOf({ runs }: Ledger): string | null {
  const costs = [...runs.values()].filter(({ steps }) => steps).map(({ cost }) => cost);
  return costs.reduce<string | null>((sum, cost, index) => total(sum, cost, index), null);
}

/** Return the tokens that went in, also those that came from the cache; null where none are known. */
export function inputOf({ input, cache_read, cache_write_short, cache_write_long }: Usage): number | null {
  return [input, cache_read, cache_write_short, cache_write_long].reduce(plus, null);
}

function spend(ledger: Ledger, run: string | null, to: (spent: Spent) => Partial<Spent>): Ledger {
  if (run === null) return ledger;
  const before = ledger.runs.get(run) ?? FRESH;
  return { ...ledger, runs: new Map(ledger.runs).set(run, { ...before, ...to(before) }) };
}

function added(one: Usage, other: Usage | undefined): Usage {
  const names = Object.keys(NOTHING) as (keyof Usage)[];
  return Object.fromEntries(names.map((name) => [name, plus(one[name], other?.[name] ?? null)])) as unknown as Usage;
}

function plus(one: number | null, other: number | null): number | null {
  return one === null ? other : other === null ? one : one + other;
}

/** Return the sum of two costs after *count* others: once one is unknown, so is the sum. */
function total(sum: string | null, cost: string | null, count: number): string | null {
  if (cost === null || (sum === null && count > 0)) return null;
  return sum === null ? cost : String(Number((Number(sum) + Number(cost)).toFixed(9)));
}
