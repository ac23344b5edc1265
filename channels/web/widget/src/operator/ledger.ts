/** What operators see of a log besides the conversation: who said what when, and what each run has used. */

import type { Frame, Person } from "../log/events.js";

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
  /** Model calls that were paid for: steps, tries that broke off, compactions. */
  readonly calls: number;
  /** Why it failed, in words for operators. */
  readonly detail: string | null;
}

export interface Ledger {
  readonly seq: number;
  /** When the newest fact was written, in RFC 3339; empty before there is one. */
  readonly time: string;
  readonly said: ReadonlyMap<string, Said>;
  /** By the run's id; what belongs to none, such as a compaction of an idle conversation, is under "". */
  readonly runs: ReadonlyMap<string, Spent>;
}

export const NO_LEDGER: Ledger = { seq: 0, time: "", said: new Map(), runs: new Map() };
const NOTHING: Usage = { input: null, output: null, reasoning: null, cache_read: null, cache_write_short: null, cache_write_long: null };
const FRESH: Spent = { usage: NOTHING, cost: null, steps: 0, calls: 0, detail: null };

interface Body {
  readonly message?: string;
  readonly actor?: Person;
  readonly usage?: Usage;
  readonly cost?: string | null;
  readonly detail?: string | null;
}

/** Fold *frames* into *ledger*; facts that are in it change nothing. Many at once cost one copy. */
export function note(ledger: Ledger, frames: readonly Frame[]): Ledger {
  const fresh = frames.filter(({ seq }) => seq !== undefined && seq > ledger.seq);
  const last = fresh.at(-1);
  if (!last) return ledger;
  const [said, runs] = [new Map(ledger.said), new Map(ledger.runs)];
  for (const frame of fresh) write(said, runs, frame);
  return { seq: last.seq ?? ledger.seq, time: last.time, said, runs };
}

function write(said: Map<string, Said>, runs: Map<string, Spent>, { type, time, run, data }: Frame): void {
  const { message, actor, usage, cost = null, detail = null } = data as Body;
  const spend = (to: (spent: Spent) => Partial<Spent>): void => {
    const before = runs.get(run ?? "") ?? FRESH;
    runs.set(run ?? "", { ...before, ...to(before) });
  };
  switch (type) {
    case "message.received":
    case "message.completed":
    case "step.started": // its message has a time before it has an end
      if (message !== undefined && !said.get(message)?.person) said.set(message, { person: actor ?? null, time: said.get(message)?.time ?? time });
      return;
    case "step.completed":
      return spend((before) => ({ ...paid(before, usage, cost), steps: before.steps + 1 }));
    case "step.failed":
    case "context.compacted":
    case "compaction.failed":
      return usage && spend((before) => paid(before, usage, cost)); // others were not answered by a model
    case "run.completed":
      return spend(({ usage: before }) => ({ usage: usage ?? before, cost }));
    case "run.failed":
      return spend(() => ({ detail }));
  }
}

/** Return *before* with one more call. */
function paid({ usage: before, cost: sum, calls }: Spent, usage: Usage | undefined, cost: string | null): Pick<Spent, "usage" | "cost" | "calls"> {
  return { usage: added(before, usage), cost: total(sum, cost, calls), calls: calls + 1 };
}

/** Return what all runs of *ledger* have cost, null where the price of one is not known. */
export function costOf({ runs }: Ledger): string | null {
  const costs = [...runs.values()].filter(({ calls }) => calls).map(({ cost }) => cost);
  return costs.reduce<string | null>((sum, cost, index) => total(sum, cost, index), null);
}

/** Return the tokens that went in, also those that came from the cache; null where none are known. */
export function inputOf({ input, cache_read, cache_write_short, cache_write_long }: Usage): number | null {
  return [input, cache_read, cache_write_short, cache_write_long].reduce(plus, null);
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
