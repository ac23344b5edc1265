import assert from "node:assert/strict";
import { test } from "node:test";
import { askAlone, type Asking } from "../src/talk/calls.js";

const { locks } = navigator;
let names = 0;

interface Tab extends Asking {
  /** How often its page was asked. */
  readonly count: () => number;
  readonly stop: () => void;
  readonly close: () => void;
}

function tab(name: string, takes: boolean): Tab {
  const [life, presence] = [new AbortController(), new AbortController()];
  let asked = 0;
  return { name, ask: () => ((asked += 1), takes), waiting: life.signal, gone: presence.signal, count: () => asked, stop: () => life.abort(), close: () => presence.abort() };
}

const newName = (): string => `call ${(names += 1)}`;

test("of two tabs one page is asked, and the other once that tab is gone", async () => {
  const name = newName();
  const [first, second] = [tab(name, true), tab(name, true)];
  const both = [askAlone(locks, first), askAlone(locks, second)];
  await locks.request("another", () => undefined);
  assert.deepEqual([first.count(), second.count()], [1, 0]);
  first.stop();
  first.close();
  await both[0];
  second.close();
  await both[1];
  assert.deepEqual([first.count(), second.count()], [1, 1]);
});

test("a page that does not take the call leaves it to the next tab", async () => {
  const name = newName();
  const [first, second] = [tab(name, false), tab(name, false)];
  await Promise.all([askAlone(locks, first), askAlone(locks, second)]);
  assert.deepEqual([first.count(), second.count()], [1, 1]);
});

test("a cancelled waiter is never asked", async () => {
  const name = newName();
  const [first, second] = [tab(name, true), tab(name, true)];
  const held = askAlone(locks, first);
  const waits = askAlone(locks, second);
  second.stop();
  await waits;
  first.close();
  await held;
  assert.deepEqual([first.count(), second.count()], [1, 0]);
});

test("without locks, and where they are refused, every tab is asked", async () => {
  const refusing = { request: async () => Promise.reject(new DOMException("no origin", "SecurityError")) } as unknown as LockManager;
  for (const given of [undefined, refusing]) {
    const only = tab(newName(), true);
    await askAlone(given, only);
    assert.equal(only.count(), 1);
  }
});
