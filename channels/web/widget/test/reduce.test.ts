import assert from "node:assert/strict";
import { test } from "node:test";
import type { Delta, Frame } from "../src/log/events.js";
import { join } from "../src/log/join.js";
import { reduce } from "../src/log/reduce.js";
import { activeRun, EMPTY, textOf, type ViewState } from "../src/log/state.js";
import { expectedOf, fold, framesOf, names, summary } from "./golden.js";

const isDelta = ({ type }: Frame): boolean => type === "text.delta" || type === "reasoning.delta";
const isFact = ({ seq }: Frame): boolean => seq !== undefined;
const texts = (state: ViewState): string[] => state.messages.map(({ parts }) => textOf(parts));
const envelope = { run: "run_1", parent_run: null, time: "" };

for (const name of names) {
  test(`the golden log "${name}" folds to what is expected of it`, () => {
    assert.deepEqual(summary(fold(framesOf(name))), expectedOf(name));
  });

  test(`"${name}" fed again from any cursor changes nothing`, () => {
    const frames = framesOf(name);
    const whole = fold(frames);
    for (let from = 0; from <= frames.length; from += 1) assert.deepEqual(fold(frames.slice(from), whole), whole);
  });

  test(`"${name}" joined anywhere shows what a reader from the beginning sees`, () => {
    const frames = framesOf(name);
    for (let at = 0; at <= frames.length; at += 1) {
      const seen = fold(frames.slice(0, at));
      const joined = fold([...frames.slice(0, at).filter(isFact), ...joinDeltas(seen)]);
      assert.deepEqual(summary(joined), summary(seen));
      assert.deepEqual(summary(fold(frames.slice(at), joined)), expectedOf(name));
    }
  });

  test(`"${name}" with the connection lost anywhere comes to the same end`, () => {
    const frames = framesOf(name);
    for (let lost = 0; lost <= frames.length; lost += 3) {
      const before = fold(frames.slice(0, lost));
      const rest = frames.filter((frame) => isFact(frame) && (frame.seq as number) > before.seq);
      assert.deepEqual(summary(fold(rest, before)), expectedOf(name));
    }
  });

  test(`"${name}" in two parts between which no run is open, joined, is what a reader from the beginning sees`, () => {
    const frames = framesOf(name);
    const whole = fold(frames);
    for (const at of quiet(frames)) {
      const begin = frames[at - 1]?.seq ?? 0;
      const newer = fold(frames.slice(at), { ...EMPTY, seq: begin, begin });
      assert.deepEqual(join(fold(frames.slice(0, at)), newer), whole);
    }
  });

  test(`"${name}" as a visitor reads it has gaps in seq and the same transcript`, () => {
    const visible = framesOf(name).filter(({ type }) => !["context.added", "snapshot.frozen", "hook.ruled"].includes(type)).map(withhold);
    const { approvals = {}, ...rest } = expectedOf(name);
    const withheld = Object.fromEntries(Object.entries(approvals).map(([id, [status, , by]]) => [id, [status, undefined, by]]));
    assert.deepEqual(summary(fold(visible)), Object.keys(approvals).length ? { ...rest, approvals: withheld } : rest);
  });
}

/** Return where a server may begin to read *frames*: at facts before which no root run is open, nor a message is left for one to come. */
function quiet(frames: readonly Frame[]): number[] {
  const open = new Set<string>();
  return frames.flatMap((frame, at) => {
    const { type, run, seq } = frame as { type: string; run: string | null; seq?: number };
    const state = fold(frames.slice(0, at));
    const here = seq !== undefined && at > 0 && !open.size && !state.messages.some(({ pending }) => pending);
    if (run !== null && (frame.parent_run ?? null) === null) {
      if (["run.completed", "run.failed", "run.cancelled"].includes(type)) open.delete(run);
      else open.add(run);
    }
    return here ? [at] : [];
  });
}

/** What a joining reader gets after the facts: each part of an open message as one delta from offset 0. */
function joinDeltas(state: ViewState): Frame[] {
  return state.messages.filter(({ open }) => open).flatMap(({ id, run, parts, epoch, attempt }) =>
    parts.map((part, index): Frame => {
      const data: Delta = { message: id, part: index, epoch, attempt, offset: 0, text: part.type === "text" ? part.text : "" };
      return { type: "text.delta", run, parent_run: null, time: "", data };
    }),
  );
}

function withhold(frame: Frame): Frame {
  const strip = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(strip);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).flatMap(([key, each]) => (["arguments", "usage", "cost"].includes(key) ? [] : [[key, strip(each)]])));
  };
  const data = strip(frame.data) as Record<string, unknown>;
  if (frame.type === "tool.completed") delete data["parts"];
  return { ...frame, data } as Frame;
}

test("a message has the time of the fact that brought it, and an open answer has none", () => {
  const frames = framesOf("plain");
  const facts = frames.filter(({ type }) => type === "message.received" || type === "message.completed");
  assert.deepEqual(fold(frames).messages.map(({ time }) => time), facts.map(({ time }) => Date.parse(time)));
  const half = fold(frames.slice(0, frames.findLastIndex(isDelta) + 1));
  assert.deepEqual(half.messages.map(({ time }) => time > 0), [true, false]);
});

test("emoji deltas are cut at code points: every state on the way is a prefix of the answer", () => {
  const answer = expectedOf("emoji").transcript[1]?.text ?? "";
  let state = EMPTY;
  for (const frame of framesOf("emoji")) {
    state = reduce(state, frame);
    const shown = textOf(state.messages[1]?.parts ?? []);
    if (isDelta(frame)) assert.ok(answer.startsWith(shown) && shown, shown);
  }
});

test("a delta of a newer attempt clears the text, and one of an older attempt is passed over", () => {
  const shown: string[] = [];
  let state = EMPTY;
  for (const frame of framesOf("retry")) {
    state = reduce(state, frame);
    if (isDelta(frame)) shown.push(texts(state)[1] ?? "");
  }
  assert.deepEqual(shown, ["Honey is a food ", "Honey is a food that will nev", "Octopuses ", "Octopuses ", "Octopuses have three ", "Octopuses have three hearts."]);
});

test("a refusal leaves nothing of what was shown", () => {
  const refused = fold(framesOf("refused")).messages.at(-1);
  assert.deepEqual([refused?.parts, refused?.stop], [[], "refused"]);
});

test("a late delta of a completed message changes nothing", () => {
  const done = fold(framesOf("plain"));
  const late = framesOf("plain").find(isDelta) as Frame;
  assert.equal(reduce(done, late), done);
});

test("a call through the router is shown as the tool that it means", () => {
  const wish = { type: "tool_call", call: "call_1", name: "call_tool" };
  const said = { message: "msg_2", role: "assistant", parts: [wish], stop: "tools" };
  const asked = { call: "call_1", name: "get_order", index: 0, step: 1, via: "call_tool" };
  const before = reduce(EMPTY, { ...envelope, seq: 1, type: "message.completed", data: said } as unknown as Frame);
  const { calls } = reduce(before, { ...envelope, seq: 2, type: "tool.requested", data: asked } as unknown as Frame);
  assert.deepEqual(calls.map(({ name }) => name), ["get_order"]);
});

test("tool calls are in order with their status, and progress only while they run", () => {
  const frames = framesOf("tools");
  const progress = frames.findIndex(({ type }) => type === "tool.progress");
  const during = fold(frames.slice(0, progress + 1)).calls;
  assert.deepEqual(during.map(({ name, status, progress: said }) => [name, status, said]), [["calculate", "running", "multiplying"], ["current_time", "running", undefined]]);
  const after = fold(frames).calls;
  assert.deepEqual(after.map(({ name, status }) => [name, status]), [["calculate", "done"], ["current_time", "done"]]);
  assert.deepEqual(after.map(({ message }) => message), ["msg_2", "msg_2"]);
});

test("a call is shown although its message names none, as where a visitor may see names only", () => {
  const frames = framesOf("tools").map((frame) => (frame.type === "message.completed" ? { ...frame, data: { ...frame.data, parts: [] } } : frame) as Frame);
  assert.deepEqual(fold(frames).calls.map(({ message, name }) => [message, name]), [["msg_2", "calculate"], ["msg_2", "current_time"]]);
});

test("a doom loop ends with its last call cancelled and the run failed", () => {
  const state = fold(framesOf("doom_loop"));
  assert.deepEqual(state.calls.map(({ status }) => status), ["failed", "failed", "cancelled"]);
  assert.deepEqual([state.runs[0]?.code, state.runs[0]?.retryable], ["doom_loop", false]);
});

test("a queued message stays last and pending until a step takes it", () => {
  const frames = framesOf("queued");
  const started = frames.findIndex(({ run, type }) => run === "run_2" && type === "step.started");
  const before = fold(frames.slice(0, started));
  assert.deepEqual(before.messages.map(({ id, pending }) => [id, pending]), [["msg_1", false], ["msg_2", false], ["msg_3", true]]);
  assert.equal(fold(frames.slice(0, started + 1)).messages.some(({ pending }) => pending), false);
});

test("a message queued while a run goes through several steps stays after all of them", () => {
  const queued: Frame[] = [
    { ...envelope, seq: 5.5, type: "message.received", run: "run_2", data: { message: "msg_9", parts: [{ type: "text", text: "later" }] } },
    { ...envelope, seq: 5.6, type: "run.queued", run: "run_2", data: {} },
  ];
  const frames = framesOf("steered").flatMap((frame) => (frame.seq === 6 ? [...queued, frame] : [frame]));
  assert.equal(texts(fold(frames)).at(-1), "later");
});

test("a run cancelled in the queue settles its message, and one that joined a run waits for the next", () => {
  const asked = framesOf("queued").slice(0, 10);
  const seq = 100;
  const cancelled = fold([...asked, { ...envelope, seq, run: "run_2", type: "run.cancelled", data: { by: { id: "a", kind: "user" }, reason: null } }]);
  assert.deepEqual(cancelled.messages.map(({ pending }) => pending), [false, false, false]);
  const steered: Frame = { ...envelope, seq, type: "message.received", data: { message: "msg_9", parts: [] } };
  const ended = fold([...asked, steered, { ...envelope, seq: seq + 1, type: "run.completed", data: { stop_reason: "end_turn" } }]);
  assert.equal(ended.messages.find(({ id }) => id === "msg_9")?.pending, true);
});

test("a waiting run, one that asks this page to act, and one being cancelled can be distinguished", () => {
  const running = framesOf("plain").slice(0, 6);
  const last = (type: string, data: object): ViewState => fold([...running, { ...envelope, seq: 50, type, data } as Frame]);
  assert.equal(last("run.waiting", { on: ["approval"] }).runs[0]?.status, "waiting");
  assert.equal(last("run.waiting", { on: ["approval", "client"] }).runs[0]?.status, "requires_action");
  assert.equal(last("run.cancelling", {}).runs[0]?.cancelling, true);
  assert.equal(activeRun(last("run.waiting", { on: ["run"] }))?.id, "run_1");
  assert.equal(activeRun(last("run.completed", { stop_reason: "end_turn" })), undefined);
});

test("child runs and unknown events move the cursor and nothing else", () => {
  const state = fold(framesOf("plain"));
  const child = { ...envelope, seq: 77, parent_run: "run_1", run: "run_7", type: "run.started", data: { epoch: 1 } } as Frame;
  assert.deepEqual(reduce(state, child), { ...state, seq: 77 });
  assert.deepEqual(reduce(state, { ...envelope, seq: 78, type: "citations.resolved", data: {} }), { ...state, seq: 78 });
});

test("a corrected message is shown as corrected", () => {
  const parts = [{ type: "text" as const, text: "What is a log?" }];
  const state = fold([...framesOf("plain"), { ...envelope, seq: 70, type: "message.corrected", data: { message: "msg_1", parts } }]);
  assert.equal(texts(state)[0], "What is a log?");
});

test("a message that is deleted before a step takes it is gone, and one that was taken is empty", () => {
  const deleted = (message: string, seq: number): Frame => ({ ...envelope, seq, type: "message.corrected", data: { message, parts: [] } });
  const asked = framesOf("queued").slice(0, 10);
  assert.deepEqual(texts(fold([...asked, deleted("msg_3", 70)])).length, 2);
  assert.deepEqual(texts(fold([...asked, deleted("msg_1", 70)])), ["", "The first answer.", "Second question"]);
});

test("after a Stop nothing waits", () => {
  for (const name of ["stopped_queue", "stopped_adopted"]) {
    const { messages } = fold(framesOf(name));
    assert.deepEqual(messages.filter(({ pending }) => pending), [], name);
    assert.ok(messages.some(({ missed }) => missed), name);
  }
});

test("what becomes of an older message reaches it when it is read", () => {
  const parts = (text: string) => [{ type: "text", text }] as const;
  const said = { seq: 1, type: "message.received", ...envelope, data: { message: "m_1", parts: parts("one") } } as unknown as Frame;
  const ended = { seq: 2, type: "run.completed", ...envelope, data: { stop_reason: "end_turn" } } as unknown as Frame;
  const corrected = { seq: 3, type: "message.corrected", ...envelope, data: { message: "m_1", parts: parts("won") } } as unknown as Frame;
  const newer = fold([corrected], { ...EMPTY, seq: 2, begin: 2 });
  assert.deepEqual(texts(join(fold([said, ended]), newer)), ["won"]);
  const twice = join({ ...EMPTY, seq: 2, begin: 1 }, newer);
  assert.deepEqual(texts(join(fold([said]), twice)), ["won"]);
});
