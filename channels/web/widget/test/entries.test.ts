import assert from "node:assert/strict";
import { test } from "node:test";
import { FRESH, type Conversation } from "../src/talk/conversation.js";
import { dayName } from "../src/transcript/day.js";
import { entriesOf, startOf, withDays, type Entry, type Question } from "../src/transcript/entries.js";
import { EMPTY } from "../src/log/state.js";
import type { Frame } from "../src/log/events.js";
import { reduce } from "../src/log/reduce.js";
import { fold, framesOf, names } from "./golden.js";

function shown(name: string): readonly (readonly [string | null, string])[] {
  const entries = entriesOf({ ...FRESH, link: "open", view: fold(framesOf(name), EMPTY) });
  return entries.map((entry) => {
    if (entry.kind === "question") return ["?", entry.text] as const;
    return [entry.by, entry.blocks.map((block) => ("text" in block ? block.text : block.kind)).join(" ")] as const;
  });
}

test("a person's answer is an entry of its own, with the name, between those of the agent", () => {
  assert.deepEqual(shown("replied"), [
    ["?", "one"],
    [null, "tool"],
    ["Meg", "At once."],
    [null, "One."],
    ["Meg", "Later."],
    ["?", "two"],
    [null, "Half"],
    ["Meg", "Meanwhile."],
    ["?", "three"],
    [null, "Three."],
  ]);
});

test("a run whose picture the model cannot see says so", () => {
  const unseen = (name: string): readonly unknown[] => fold(framesOf(name), EMPTY).runs.map((run) => run.unseen ?? false);
  assert.deepEqual([unseen("unseen"), unseen("plain")], [[true], [false]]);
});

test("a run from which the provider refused something names the files, and says so of anything else", () => {
  const left = (seq: number, names?: readonly string[]) => ({ seq, type: "content.left_out", run: "r", parent_run: null, time: "", data: { ...(names && { names }) } }) as const;
  const leftOut = (...frames: readonly Frame[]): unknown => fold(frames, EMPTY).runs.map((run) => run.leftOut);
  assert.deepEqual([leftOut(left(1)), leftOut(left(1), left(2, ["a.pdf"]))], [[[]], [["a.pdf"]]]);
});

test("a call that brought suggestions is no line of the answer, one that failed is", () => {
  const call = (id: string, status: "done" | "failed") => ({ id, run: "r", message: "a", name: "suggest", status }) as const;
  const blank = { seq: 1, time: 0, open: false, pending: false, steered: false, missed: false, partial: false, stop: null, epoch: 0, attempt: 0 };
  const said = { ...blank, id: "a", role: "assistant", run: "r", parts: [{ type: "tool_call", call: "c1", name: "suggest" }, { type: "text", text: "Yes." }] } as const;
  const render = { id: "s", call: "c1", message: "a", kind: "suggestions", payload: {}, text: "" };
  const [answer] = entriesOf({ ...FRESH, view: { ...EMPTY, messages: [said], calls: [call("c1", "done"), call("c2", "failed")], renders: [render] } });
  assert.deepEqual(answer?.kind === "answer" && answer.blocks.map(({ kind }) => kind), ["text", "tool", "render"]);
});

const at = (text: string): number => new Date(text).getTime();
const entry = (time: number): Question => ({ kind: "question", key: String(time), time, text: "", files: [], editable: false, tag: null, run: null, outgoing: null });
const days = (now: string, ...times: number[]): readonly string[] =>
  withDays(times.map(entry), at(now)).map((each) => (each.kind === "day" ? dayName(each.time, at(now), "en-US") : "-"));

test("each day has its line; a conversation of today has none, and what has no time yet belongs to the day before it", () => {
  assert.deepEqual(days("2026-03-02T12:00", at("2026-03-02T00:00"), at("2026-03-02T11:59"), 0), ["-", "-", "-"]);
  assert.deepEqual(days("2026-03-02T12:00", at("2025-12-31T10:00"), at("2026-02-27T09:00"), at("2026-02-27T23:59"), at("2026-03-01T00:01"), 0, at("2026-03-02T08:00")), [
    "Wednesday, December 31, 2025", "-", "Friday, February 27, 2026", "-", "-", "yesterday", "-", "-", "today", "-",
  ]);
  assert.equal(dayName(at("2026-03-01T23:00"), at("2026-03-02T01:00"), "de"), "gestern");
  assert.deepEqual(days("2026-03-02T12:00"), []);
});

const whole: Omit<Conversation, "view"> = { ...FRESH, link: "open" };

for (const name of names) {
  test(`the newest entries of "${name}", from any message on, are the last of all its entries`, () => {
    const view = fold(framesOf(name), EMPTY);
    const all = entriesOf({ ...whole, view });
    for (let at = 0; at <= view.messages.length; at += 1) {
      const some = entriesOf({ ...whole, view }, startOf(view.messages, at));
      assert.deepEqual(some, all.slice(all.length - some.length));
    }
  });

  test(`entries of "${name}" made step by step are those made at once, and what has not changed is the same value`, () => {
    let view = EMPTY;
    let before: readonly Entry[] = [];
    for (const frame of framesOf(name)) {
      const known = view;
      view = reduce(view, frame);
      const now = entriesOf({ ...whole, view });
      assert.deepEqual(now, entriesOf({ ...whole, view: structuredClone(view) }));
      if (frame.type === "text.delta" && view.messages.length === known.messages.length) {
        const same = now.filter((each, index) => each === before[index]).length;
        assert.ok(same >= now.length - 1, `${same} of ${now.length} after a delta`);
      }
      before = now;
    }
  });
}
