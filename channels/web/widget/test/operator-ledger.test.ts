import assert from "node:assert/strict";
import { test } from "node:test";
import type { Frame } from "../src/log/events.js";
import { costOf, NO_LEDGER, note, type Ledger, type Usage } from "../src/operator/ledger.js";
import { money, spentLine } from "../src/operator/words.js";

const usage = (input: number, output: number, cache_read: number | null = null): Usage => ({ input, output, reasoning: null, cache_read, cache_write_short: null, cache_write_long: null });
let seq = 0;
function fact(type: string, run: string | null, data: object, parent: string | null = null): Frame {
  seq += 1;
  return { seq, type, session: "ses_1", run, parent_run: parent, time: "2026-01-05T09:00:00.000Z", data } as unknown as Frame;
}
const fold = (...frames: Frame[]): Ledger => note(NO_LEDGER, frames);
const step = (run: string, cost: string | null, used = usage(10, 2)): Frame => fact("step.completed", run, { n: 1, usage: used, cost });

test("the steps of a run add up while it works, and its end says the whole", () => {
  const working = fold(step("run_1", "0.1"), step("run_1", "0.2", usage(5, 1, 100)));
  assert.equal(spentLine(working.runs.get("run_1")!), "115 in (100 cached) · 3 out · 30\u00a0¢ · 2 steps");
  const done = note(working, [fact("run.completed", "run_1", { stop_reason: "end_turn", usage: usage(1500, 30), cost: "0.0123" })]);
  assert.equal(spentLine(done.runs.get("run_1")!), "1,500 in · 30 out · 1.23\u00a0¢ · 2 steps");
});

test("a run without a known price has no cost, nor has the conversation", () => {
  const some = fold(step("run_1", "0.5"), step("run_2", null));
  assert.equal(some.runs.get("run_2")?.cost, null);
  assert.equal(costOf(some), null);
  assert.equal(costOf(fold(step("run_1", "0.5"), step("run_2", "0.25"))), "0.75");
  assert.equal(costOf(NO_LEDGER), null);
  assert.equal(fold(step("run_1", null), step("run_1", "0.5")).runs.get("run_1")?.cost, null);
});

test("unknown tokens are left out, not shown as none", () => {
  const nothing = { ...usage(0, 0), input: null, output: null };
  assert.equal(spentLine(fold(step("run_1", null, nothing)).runs.get("run_1")!), "1 step");
});

test("costs below a dollar are in cents, others in dollars", () => {
  const written = ["0.012300", "0.0000417", "0.10", "0", "0.99999", "1", "10.507"].map(money);
  assert.deepEqual(written, ["1.23\u00a0¢", "0.00417\u00a0¢", "10\u00a0¢", "0\u00a0¢", "100\u00a0¢", "$1.00", "$10.51"]);
});

test("a try that broke off and a compaction are paid too, and are no steps", () => {
  const failed = { n: 1, attempt: 1, code: "network", message: "", retryable: true };
  const broken = fact("step.failed", "run_1", { ...failed, usage: usage(10, 2), cost: "0.25" });
  const summary = fact("context.compacted", "run_1", { kind: "summary", from_seq: 3, usage: usage(100, 20), cost: "0.5" });
  const unpriced = fact("compaction.failed", "run_2", { model: "local:m", usage: usage(1, 1), cost: null });
  const refused = fact("step.failed", "run_2", failed);
  const { runs } = fold(broken, step("run_1", "0.125"), summary, unpriced, refused, step("run_2", "0.5"));
  assert.equal(spentLine(runs.get("run_1")!), "120 in · 24 out · 87.5\u00a0¢ · 1 step");
  assert.equal(spentLine(runs.get("run_2")!), "11 in · 3 out · 1 step", "one price is not known");
  const idle = fact("context.compacted", null, { kind: "summary", from_seq: 3, usage: usage(100, 20), cost: "0.5" });
  assert.equal(costOf(fold(step("run_1", "0.25"), idle)), "0.75", "of the whole conversation");
});

test("each message has its person and its time, a reply too", () => {
  const ada = { id: "ada", kind: "user", name: "Ada" };
  const mara = { id: "operator", kind: "service", name: "Mara" };
  const said = fold(fact("message.received", "run_1", { message: "msg_1", actor: ada, parts: [] }), fact("message.completed", null, { message: "msg_2", role: "assistant", actor: mara, parts: [], stop: "done" })).said;
  assert.deepEqual(said.get("msg_1")?.person, ada);
  assert.deepEqual(said.get("msg_2")?.person, mara);
  assert.equal(fold(fact("message.completed", "run_1", { message: "msg_3", role: "assistant", parts: [], stop: "done" })).said.get("msg_3")?.person, null);
});

test("a fact that is read again changes nothing", () => {
  const frame = step("run_1", "1");
  const once = fold(frame);
  assert.equal(note(once, [frame]), once);
});

test("why a run failed is kept for operators", () => {
  const { runs } = fold(fact("run.failed", "run_1", { code: "provider_error", message: "Sorry.", detail: "401 from the provider" }));
  assert.equal(runs.get("run_1")?.detail, "401 from the provider");
});
