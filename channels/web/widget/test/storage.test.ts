import assert from "node:assert/strict";
import { test } from "node:test";
import { browserMemory, type Memory } from "../src/talk/storage.js";

/** A storage that behaves as a browser's, and reports changes to the other tabs. */
class Held {
  readonly values = new Map<string, string>();
  constructor(private readonly changed: (key: string, value: string | null) => void = () => undefined) {}
  getItem = (name: string): string | null => this.values.get(name) ?? null;
  setItem(name: string, value: string): void {
    if (this.values.get(name) === value) return;
    this.values.set(name, value);
    this.changed(name, value);
  }
  removeItem(name: string): void {
    if (this.values.delete(name)) this.changed(name, null);
  }
}

interface Tab {
  /** Do *work* with the globals of this tab. */
  run<T>(work: (memory: Memory) => T): T;
  /** What other tabs have reported to this one. */
  readonly received: [string, string | null][];
}

/** Return tabs of one browser; a new one has a session storage of its own. */
function browser(): { open(): Tab; readonly shared: Held } {
  const listeners: { tab: object; listen: (event: object) => void }[] = [];
  let current: object | null = null;
  const shared = new Held((key, newValue) => {
    for (const { tab, listen } of listeners.filter((each) => each.tab !== current)) within(tab, () => listen({ key, newValue }));
  });
  const within = <T>(tab: object, work: () => T): T => {
    const before = current;
    current = tab;
    Object.assign(globalThis, { localStorage: shared, sessionStorage: (tab as { own: Held }).own });
    try {
      return work();
    } finally {
      current = before;
      if (before) Object.assign(globalThis, { sessionStorage: (before as { own: Held }).own });
    }
  };
  const open = (): Tab => {
    const tab = { own: new Held() };
    const received: [string, string | null][] = [];
    const memory = within(tab, () => {
      Object.assign(globalThis, { addEventListener: (_: string, listen: (event: object) => void) => listeners.push({ tab, listen }) });
      const made = browserMemory("kept");
      made.watch((to, from) => received.push([to, from]), new AbortController().signal);
      return made;
    });
    return { received, run: (work) => within(tab, () => work(memory)) };
  };
  return { open, shared };
}

test("what is open is the tab's own; a new tab opens what was used last", () => {
  const { open } = browser();
  const one = open();
  one.run((memory) => memory.save("ses_1"));
  const other = open();
  assert.equal(other.run((memory) => memory.load()), "ses_1");
  other.run((memory) => memory.save("ses_2"));
  assert.deepEqual([one.run((memory) => memory.load()), one.received], ["ses_1", []]);
  assert.equal(open().run((memory) => memory.load()), "ses_2");
});

test("a new conversation in one tab leaves those of others, and stays new when the tab is reloaded", () => {
  const { open } = browser();
  const [one, other] = [open(), open()];
  one.run((memory) => memory.save("ses_1"));
  other.run((memory) => memory.save("ses_2"));
  one.run((memory) => memory.save(null));
  assert.deepEqual([one.run((memory) => memory.load()), other.run((memory) => memory.load())], [null, "ses_2"]);
  assert.equal(open().run((memory) => memory.load()), "ses_2");
  one.run((memory) => memory.save("ses_3"));
  one.run((memory) => memory.save(null));
  assert.equal(open().run((memory) => memory.load()), null, "the last one that was used was left");
});

test("only a tab that has not chosen, and in which nothing is written, hears of another tab's first conversation", () => {
  const { open } = browser();
  const [empty, written, renewed, busy] = [open(), open(), open(), open()];
  written.run((memory) => memory.keep(null, "half a sen"));
  renewed.run((memory) => memory.save(null));
  busy.run((memory) => memory.save("ses_1"));
  assert.deepEqual([empty.received, written.received, renewed.received], [[["ses_1", null]], [], []]);
});

test("drafts are kept for each conversation, that of a new one by the tab, and no more than bounded", () => {
  const { open, shared } = browser();
  const [one, other] = [open(), open()];
  one.run((memory) => (memory.keep("ses_1", "one"), memory.keep("ses_2", "two"), memory.keep(null, "new")));
  assert.deepEqual(other.run((memory) => [memory.draft("ses_1"), memory.draft("ses_2"), memory.draft(null)]), ["one", "two", ""]);
  one.run((memory) => memory.keep("ses_1", ""));
  assert.equal(other.run((memory) => memory.draft("ses_1")), "");
  one.run((memory) => {
    for (let n = 0; n < 100; n += 1) memory.keep(`ses_n${n}`, "x".repeat(20_000));
  });
  assert.equal(one.run((memory) => memory.draft("ses_n99")).length, 10_000);
  assert.equal(one.run((memory) => memory.draft("ses_n0")), "");
  const kept = [...shared.values.values()].join("").length;
  assert.ok(kept < 600_000, `${kept} characters`);
});

test("how far a conversation was read is known in all tabs, and goes along when it goes on as another", () => {
  const { open } = browser();
  const [one, other] = [open(), open()];
  assert.equal(one.run((memory) => memory.seen("ses_1")), undefined);
  one.run((memory) => (memory.save("ses_1"), memory.see("ses_1", 9), memory.keep("ses_1", "half")));
  assert.equal(other.run((memory) => memory.seen("ses_1")), 9);
  one.run((memory) => memory.move("ses_1", "ses_2", 5));
  assert.deepEqual(other.received.at(-1), ["ses_2", "ses_1"]);
  assert.deepEqual(other.run((memory) => [memory.seen("ses_2"), memory.draft("ses_2"), memory.seen("ses_1")]), [5, "half", undefined]);
});

test("files are kept with the draft, and what could not be sent comes before both", () => {
  const { open } = browser();
  const file = (n: number) => ({ file: `file_${n}`, name: `${n}.txt`, mime: "text/plain", size: n });
  const one = open();
  for (const id of [null, "ses_1"]) {
    one.run((memory) => {
      memory.attach(id, [file(2)]);
      memory.keep(id, "half");
      memory.hold(id, [{ text: "lost", files: [file(1)] }]);
      assert.deepEqual([memory.draft(id), memory.files(id)], ["half", [file(2)]]);
      memory.reclaim(id);
      memory.reclaim(id);
      assert.deepEqual([memory.draft(id), memory.files(id)], ["lost\n\nhalf", [file(1), file(2)]]);
      memory.attach(id, Array.from({ length: 90 }, (_, n) => file(n)));
      assert.equal(memory.files(id).length, 20);
    });
  }
  one.run((memory) => memory.move("ses_1", "ses_2", 3));
  assert.deepEqual(open().run((memory) => [memory.files("ses_2").length, memory.files("ses_1"), memory.files(null)]), [20, [], []]);
});

test("what was read stays read, whichever tab says it last", () => {
  const { open } = browser();
  const [one, other] = [open(), open()];
  one.run((memory) => memory.see("ses_1", 9));
  other.run((memory) => memory.see("ses_1", 4));
  assert.equal(one.run((memory) => memory.seen("ses_1")), 9);
});

test("where storage is forbidden everything is remembered as long as the page is there", () => {
  const refused = new Proxy({}, { get: () => () => { throw new Error("SecurityError"); } });
  Object.assign(globalThis, { localStorage: refused, sessionStorage: refused });
  const memory = browserMemory("kept");
  memory.save("ses_1");
  memory.keep("ses_1", "half");
  memory.see("ses_1", 4);
  assert.deepEqual([memory.load(), memory.draft("ses_1"), memory.seen("ses_1")], ["ses_1", "half", 4]);
  memory.drop("ses_1");
  memory.save(null);
  assert.deepEqual([memory.load(), memory.draft("ses_1")], [null, ""]);
});

test("what another page has left under the same names does no harm", () => {
  const { open, shared } = browser();
  for (const wrong of ["{", "null", "[]", "7", '"text"', '{"ses_1": null}']) {
    shared.values.set("notes of kept", wrong);
    const tab = open();
    assert.deepEqual(tab.run((memory) => [memory.draft("ses_1"), memory.seen("ses_1")]), ["", undefined], wrong);
    tab.run((memory) => memory.keep("ses_1", "half"));
    assert.equal(tab.run((memory) => memory.draft("ses_1")), "half", wrong);
  }
});
