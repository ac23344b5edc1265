import assert from "node:assert/strict";
import { test } from "node:test";
import { JSDOM } from "jsdom";
import { listen } from "../src/frame/verbs.js";
import { EMPTY } from "../src/log/state.js";
import { FRESH } from "../src/talk/conversation.js";
import { showEntry } from "../src/transcript/entry.js";
import type { Scene } from "../src/transcript/scene.js";
import type { Client, Follower } from "../src/wire/client.js";
import { converse, type Actions, type Conversation } from "../src/talk/conversation.js";
import { entriesOf, type Answer, type Question } from "../src/transcript/entries.js";
import type { AgentFace } from "../src/talk/face.js";
import type { Frame } from "../src/log/events.js";
import type { Call } from "../src/log/state.js";
import { unshown } from "../src/talk/outbox.js";
import { refused } from "../src/wire/problem.js";
import { STRINGS } from "../src/words/strings.js";
import { fold, framesOf } from "./golden.js";
import { heldMemory, type HeldMemory } from "./memory.js";

interface Stage {
  readonly actions: Actions;
  readonly now: () => Conversation;
  readonly posts: string[][];
  readonly called: Call[];
  readonly opened: () => number;
  readonly follower: () => Follower;
  readonly saved: () => string | null;
  readonly memory: HeldMemory;
}

function stage(client: Partial<Client> = {}, remembered: string | null = null): Stage {
  let now: Conversation | null = null;
  let opened = 0;
  let keys = 0;
  let follower: Follower | null = null;
  const posts: string[][] = [];
  const called: Call[] = [];
  const whole: Client = {
    request: () => Promise.reject(new Error("nothing else is asked for here")),
    access: { server: "", tokens: { get: async () => null, drop: () => undefined } },
    ratings: async () => ({}),
    agent: () => Promise.reject(new Error("a server without it")),
    open: async () => `ses_${(opened += 1)}`,
    post: async (session, text, key) => (posts.push([session, text, key]), { message_id: `m_${key}`, run_id: "run_1", seq: 3 }),
    cancel: async () => undefined,
    decide: async () => undefined,
    opened: async () => undefined,
    output: async () => undefined,
    feedback: async () => undefined,
    page: () => Promise.reject(new Error("nothing older is asked for here")),
    follow: (_session, each) => ((follower = each), new Promise(() => undefined)),
    ...client,
  };
  const memory = heldMemory(remembered);
  const actions = converse({ client: whole, agent: null, memory, signal: new AbortController().signal, more: () => import("../src/list/talks.js"), newKey: () => `k${(keys += 1)}`, called: (call) => called.push(call), changed: (each) => (now = each) });
  actions.start();
  return { actions, posts, called, now: () => now as unknown as Conversation, opened: () => opened, follower: () => follower as unknown as Follower, saved: () => memory.load(), memory };
}

const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));
const gone = (): never => {
  throw Object.assign(new Error("gone"), { status: 404, code: "not_found" });
};
const received = (seq: number, message: string, text: string): Frame => ({ seq, type: "message.received", run: "run_1", parent_run: null, time: "", data: { message, parts: [{ type: "text", text }] } });

test("nothing is opened before a person writes; then one session, and messages in order", async () => {
  const { actions, posts, opened, saved } = stage();
  await settled();
  assert.equal(opened(), 0);
  actions.send("one");
  actions.send("two");
  await settled();
  assert.deepEqual([opened(), saved(), posts], [1, "ses_1", [["ses_1", "one", "k1"], ["ses_1", "two", "k2"]]]);
});

test("a message is shown at once, and once, whichever of stream and answer comes first", async () => {
  let answer: (posted: object) => void = () => undefined;
  const { actions, now, follower } = stage({ post: () => new Promise((resolve) => (answer = resolve as never)) });
  actions.send("same");
  actions.send("same");
  assert.equal(entriesOf(now()).length, 2);
  await settled();
  follower().frame(received(3, "msg_1", "same"));
  assert.equal(entriesOf(now()).length, 2);
  answer({ message_id: "msg_1", run_id: "run_1", seq: 3 });
  await settled();
  assert.deepEqual([entriesOf(now()).length, now().outbox.length], [2, 1]);
  answer({ message_id: "msg_2", run_id: "run_2", seq: 4 });
  await settled();
  follower().frame(received(4, "msg_2", "same"));
  assert.deepEqual([entriesOf(now()).length, now().outbox.length], [2, 0]);
});

test("a message that could not be sent says so, and goes out again under its key", async () => {
  let fail = true;
  const keys: string[] = [];
  const post: Client["post"] = async (_session, _text, key) => {
    keys.push(key);
    if (fail) throw Object.assign(new Error("no"), { status: 0, code: "network" });
    return { message_id: "msg_1", run_id: "run_1", seq: 3 };
  };
  const { actions, now } = stage({ post });
  actions.send("hello");
  await settled();
  assert.equal((entriesOf(now())[0] as Question).tag, "unsent");
  fail = false;
  actions.resend("k1");
  await settled();
  assert.deepEqual([keys, unshown(now().outbox, now().view)[0]?.status], [["k1", "k1"], "sent"]);
});

test("a remembered session is resumed; when it is gone the person sees that and the next message opens another", async () => {
  const lost = stage({ follow: async () => gone() }, "ses_old");
  await settled();
  assert.deepEqual([lost.now().lost, lost.saved()], [true, null]);
  lost.actions.send("hello");
  await settled();
  assert.deepEqual(lost.opened() > 0, true);
});

test("a message to a session that is gone is carried over to a new one", async () => {
  const posts: string[] = [];
  const post: Client["post"] = async (session) => (posts.push(session), session === "ses_old" ? gone() : { message_id: "msg_1", run_id: "run_1", seq: 3 });
  const { actions, now, saved } = stage({ post }, "ses_old");
  actions.send("hello");
  await settled();
  assert.deepEqual([posts, saved(), now().lost, now().outbox.length], [["ses_old", "ses_1"], "ses_1", true, 1]);
});

test("a new conversation leaves the old one, and a tab that has not begun one joins another tab's", async () => {
  const { actions, now, saved, follower } = stage({}, "ses_old");
  follower().frame(received(3, "msg_1", "hi"));
  actions.renew();
  assert.deepEqual([now().view.messages.length, now().session, now().talk, saved()], [0, null, 1, null]);
  const fresh = stage();
  fresh.memory.otherTab("ses_other");
  fresh.follower().frame(received(3, "msg_1", "from there"));
  assert.deepEqual([fresh.now().view.messages.length, fresh.now().session], [1, "ses_other"]);
  fresh.memory.otherTab("ses_third");
  assert.equal(fresh.now().session, "ses_other");
});

test("what an old connection still says after a new conversation is ignored", () => {
  const { actions, now, follower } = stage({}, "ses_old");
  const old = follower();
  actions.renew();
  old.frame(received(3, "msg_1", "late"));
  assert.equal(now().view.messages.length, 0);
});

function entries(name: string, upTo?: number): ReturnType<typeof entriesOf> {
  const { now, follower } = stage({}, "ses_1");
  for (const frame of framesOf(name).slice(0, upTo)) follower().frame(frame);
  return entriesOf(now());
}

test("the messages of one run form one answer, with its calls in order", () => {
  const [question, answer, ...more] = entries("tools");
  assert.deepEqual([question?.kind, answer?.kind, more], ["question", "answer", []]);
  const kinds = (answer as Answer).blocks.flatMap((block) => (block.kind === "tools" ? block.calls.map(({ name }) => name) : [block.kind]));
  assert.deepEqual(kinds, ["text", "calculate", "current_time", "text"]);
});

test("an answer that was cut and went on is one text", () => {
  const answer = entries("continuation").at(-1) as Answer;
  const whole = "Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus, Neptune.";
  assert.deepEqual(answer.blocks.map((block) => block.kind === "text" && block.text), [whole]);
  assert.equal(answer.mark, null);
});

test("cited sentences are one flowing text, also after a pause of the model", () => {
  const answer = entries("cited").at(-1) as Answer;
  const whole = "I look it up.\n\nToday it rains 🌧️ in Oslo from noon on.\n\nTake a coat.";
  assert.deepEqual(answer.blocks.map((block) => block.kind === "text" && block.text), [whole]);
  assert.equal(answer.mark, null);
});

test("what people have read of an answer that broke off stays, marked as incomplete", () => {
  const broken = (parts: unknown): Answer => {
    const { now, follower } = stage({}, "ses_1");
    for (const frame of framesOf("failed")) {
      const { data } = frame as { data: Record<string, unknown> };
      follower().frame(frame.type === "message.completed" ? ({ ...frame, data: { ...data, parts } } as Frame) : frame);
    }
    return entriesOf(now()).at(-1) as Answer;
  };
  const kept = broken([{ type: "text", text: "Half a mess" }]);
  assert.deepEqual([kept.mark, kept.run?.status, kept.blocks.map(({ kind }) => kind)], ["partial", "failed", ["text"]]);
  assert.equal(STRINGS.partial, "The answer is incomplete.");
  assert.equal(broken([]).mark, null);
});

test("answers are marked as stopped and refused, and failures say whether to try again", () => {
  const last = (name: string): Answer => entries(name).at(-1) as Answer;
  assert.deepEqual([last("cancel").mark, last("refused").mark, last("plain").mark], ["stopped", "refused", null]);
  assert.deepEqual([last("failed").again, last("doom_loop").again], [{ text: "Are you there?", files: [] }, null]);
});

test("a question of files alone is asked again with them", () => {
  const file = { type: "file", file: "file_1", name: "a.txt", mime: "text/plain", size: 10 } as const;
  const view = fold(framesOf("failed"), EMPTY);
  const messages = view.messages.map((each) => (each.role === "user" ? { ...each, parts: [file] } : each));
  const last = entriesOf({ ...FRESH, view: { ...view, messages } }).at(-1) as Answer;
  assert.deepEqual(last.again, { text: "", files: [file] });
  const { document, Event, Node } = new JSDOM("").window;
  Object.assign(globalThis, { document, Node });
  const sent: unknown[] = [];
  const shown = showEntry({ ...last, asked: null }, { strings: STRINGS, load: () => new Promise(() => undefined) } as unknown as Scene);
  listen(shown.node, { send: (...given: unknown[]) => sent.push(given) } as unknown as Actions, () => undefined, () => undefined, undefined as never);
  shown.node.querySelector("[data-again]")?.dispatchEvent(new Event("click", { bubbles: true }));
  assert.deepEqual(sent, [["", [file]]]);
});

test("an answer that ended at its length limit says so, once", () => {
  const { now, follower } = stage({}, "ses_1");
  for (const frame of framesOf("plain")) {
    const { data } = frame as { data: Record<string, unknown> };
    if (frame.type === "message.completed") follower().frame({ ...frame, data: { ...data, stop: "length" } } as Frame);
    else if (frame.type === "run.completed") follower().frame({ ...frame, data: { ...data, stop_reason: "max_tokens" } } as Frame);
    else follower().frame(frame);
  }
  const answer = entriesOf(now()).at(-1) as Answer;
  assert.deepEqual([answer.mark, answer.run?.stopReason], ["cut", "max_tokens"]);
  const notes = [STRINGS[answer.mark ?? "waiting"], STRINGS.ended[answer.run?.stopReason ?? ""]].filter(Boolean);
  assert.deepEqual(notes, ["The answer was cut at its length limit."]);
});

test("a queued message is marked as such and may be withdrawn, until its run begins", () => {
  const queued = entries("queued", 10).at(-1) as Question;
  assert.deepEqual([queued.text, queued.tag, queued.run], ["Second question", "queued", "run_2"]);
  assert.deepEqual((entries("queued") as Question[]).filter(({ kind, tag }) => kind === "question" && tag), []);
});

test("what a Stop has cleared is marked as never answered, whether it was queued or had joined the run", () => {
  const questions = (entries("stopped_queue") as Question[]).filter(({ kind }) => kind === "question");
  assert.deepEqual(questions.map(({ text, tag }) => [text, tag]), [["one", null], ["two", "unanswered"], ["three", "unanswered"], ["four", "unanswered"], ["five", null]]);
  assert.deepEqual(entries("stopped_queue").flatMap((entry) => (entry.kind === "answer" ? [entry.mark] : [])), ["stopped", null]);
});

test("a message that an ended run left to the next one may be withdrawn", () => {
  const adopted = framesOf("stopped_adopted").findIndex(({ type, data }) => type === "run.queued" && "inputs" in data);
  const joined = entries("stopped_adopted", adopted).at(-1) as Question;
  const queued = entries("stopped_adopted", adopted + 1).at(-1) as Question;
  assert.deepEqual([joined.run, queued.run, queued.tag], [null, "run_3", "queued"]);
});

test("a deleted message says so where it was answered, and is not asked again after a failure", () => {
  const questions = (entries("deleted_taken") as Question[]).filter(({ kind }) => kind === "question");
  assert.deepEqual(questions.map(({ text, tag }) => [text, tag]), [["", "deleted"], ["", "deleted"], ["three", null]]);
  const { now, follower } = stage({}, "ses_1");
  for (const frame of framesOf("failed")) follower().frame(frame);
  follower().frame({ seq: 90, type: "message.corrected", run: null, parent_run: null, time: "", data: { message: "msg_1", parts: [] } });
  assert.equal((entriesOf(now()).at(-1) as Answer).again, null);
});

test("a message that was deleted before its post was answered does not come back", async () => {
  let answer: (posted: object) => void = () => undefined;
  const { actions, now, follower } = stage({ post: () => new Promise((resolve) => (answer = resolve as never)) });
  actions.send("oops");
  await settled();
  follower().frame(received(3, "msg_1", "oops"));
  follower().frame({ seq: 4, type: "message.corrected", run: "run_1", parent_run: null, time: "", data: { message: "msg_1", parts: [] } });
  answer({ message_id: "msg_1", run_id: "run_1", seq: 3 });
  await settled();
  assert.deepEqual([entriesOf(now()), now().outbox], [[], []]);
});

test("a run that has nothing to show yet is thinking", () => {
  assert.equal((entries("plain", 6).at(-1) as Answer).thinking, true);
  assert.equal((entries("plain", 7).at(-1) as Answer).thinking, false);
  assert.equal((entries("plain").at(-1) as Answer).thinking, false);
});

const asking = framesOf("approved_edited").slice(0, framesOf("approved_edited").findIndex(({ type }) => type === "run.waiting") + 1);
const failing = (status: number, code: string, errors: object[] = []) => async (): Promise<never> => {
  throw Object.assign(new Error(`It is ${code}.`), { status, code, errors });
};

test("what is said to a question goes out once, and is kept until it is in the log", async () => {
  const said: unknown[] = [];
  const { actions, follower, now } = stage({ decide: async (id, vote) => void said.push([id, vote]) }, "ses_1");
  asking.forEach((frame) => follower().frame(frame));
  actions.decide("apr_1", { approved: true, remember: true });
  assert.equal(now().decisions["apr_1"]?.sending, true);
  await settled();
  assert.deepEqual(said, [["apr_1", { approved: true, remember: true }]]);
  assert.equal(now().decisions["apr_1"]?.sending, false);
});

test("a decision that does not count says why, at its own card", async () => {
  const { actions, follower, now } = stage({ decide: failing(403, "not_an_approver") }, "ses_1");
  asking.forEach((frame) => follower().frame(frame));
  actions.decide("apr_1", { approved: true });
  await settled();
  const blocks = entriesOf(now()).flatMap((entry) => (entry.kind === "answer" ? entry.blocks : []));
  const codes = blocks.flatMap((block) => (block.kind === "tool" ? [block.deciding?.problem?.code] : []));
  assert.deepEqual(codes, ["not_an_approver", undefined]);
  assert.equal(now().problem, null);
});

test("each question that may be decided here is reported as on the screen, once", async () => {
  const opened: string[] = [];
  const { follower } = stage({ opened: async (id) => void opened.push(id) }, "ses_1");
  asking.forEach((frame) => follower().frame(frame));
  follower().reset();
  asking.forEach((frame) => follower().frame(frame));
  await settled();
  assert.deepEqual(opened, ["apr_1", "apr_2"]);
});

test("a call of the page is reported once, with its arguments, and its output is handed in; another tab may be first", async () => {
  const handed: unknown[] = [];
  const frames = framesOf("client_call");
  const wait = frames.slice(0, frames.findIndex(({ type }) => type === "run.waiting") + 1);
  const id = (wait.find(({ type }) => type === "tool.pending")?.data as { call: string }).call;
  const client = { output: async (run: string, output: unknown) => void handed.push([run, output]) };
  const { actions, called, follower } = stage(client, "ses_1");
  for (let twice = 0; twice < 2; twice += 1) wait.forEach((frame) => follower().frame(frame));
  await settled();
  assert.deepEqual(called.map(({ run, name, arguments: given }) => [run, name, given]), [["run_1", "where", {}]]);
  assert.equal(await actions.output("run_1", { call: id, output: { place: "Bern" } }), true);
  assert.deepEqual(handed, [["run_1", { call: id, output: { place: "Bern" } }]]);

  const late = stage({ output: failing(409, "already_decided") }, "ses_1");
  assert.equal(await late.actions.output("run_1", { call: id, output: 1 }), false);
  assert.equal(late.now().problem, null);
  const wrong = stage({ output: failing(422, "invalid_request") }, "ses_1");
  assert.equal(await wrong.actions.output("run_1", { call: id, output: 1 }), false);
  assert.equal(wrong.now().problem?.code, "invalid_request");
});

test("a call that is closed by the time the page learns of it is not reported", async () => {
  const { called, follower } = stage({}, "ses_1");
  framesOf("client_call").forEach((frame) => follower().frame(frame));
  await settled();
  assert.deepEqual(called, []);
});

test("an answer without a word says so, one with a word or with a tool's picture does not", async () => {
  const frames = framesOf("plain");
  const marks = (edit: (frame: Frame) => Frame): unknown[] => {
    const { follower, now } = stage({}, "ses_1");
    frames.map(edit).forEach((frame) => follower().frame(frame));
    return entriesOf(now()).flatMap((entry) => (entry.kind === "answer" ? [entry.mark] : []));
  };
  const blank = (frame: Frame): Frame => {
    if (frame.type.endsWith(".delta")) return { ...frame, data: { ...frame.data, text: "" } } as Frame;
    return frame.type === "message.completed" ? ({ ...frame, data: { ...frame.data, parts: [] } } as Frame) : frame;
  };
  await settled();
  assert.deepEqual(new Set(marks((frame) => frame)), new Set([null]));
  assert.deepEqual(new Set(marks(blank)), new Set(["blank"]));
});

const FACE: AgentFace = { agent: { id: "agt_1", name: "shop" }, title: "Shop", greeting: null, avatar: null, prompts: [], files: null, overlap: "queue", anonymous: false, build: "b1" };

test("what the agent shows of itself is read at the start and after a reconnect, and kept by a new conversation", async () => {
  let build = 0;
  const { actions, now, follower } = stage({ agent: async () => ({ ...FACE, build: `b${(build += 1)}` }) }, "ses_1");
  await settled();
  assert.deepEqual([now().agent?.title, now().agent?.build], ["Shop", "b1"]);
  follower().link("open");
  await settled();
  assert.equal(now().agent?.build, "b1", "the first connection is no news");
  for (const link of ["reconnecting", "open"] as const) follower().link(link);
  await settled();
  assert.equal(now().agent?.build, "b2");
  follower().link("open"); // after a stream that ended well, as in a rolling deploy
  await settled();
  assert.equal(now().agent?.build, "b3");
  actions.renew();
  assert.equal(now().agent?.build, "b3");
});

test("an agent that could not be read at the start is read with the next connection", async () => {
  let isUp = false;
  const agent = async (): Promise<AgentFace> => (isUp ? FACE : failing(503, "unavailable")());
  const { actions, now, follower } = stage({ agent });
  await settled();
  assert.equal(now().agent, null);
  isUp = true;
  actions.send("hello");
  await settled();
  follower().link("connecting");
  follower().link("open");
  await settled();
  assert.equal(now().agent?.title, "Shop");
});

test("another token reads the agent again, and goes on where the one before was refused", async () => {
  let follows = 0;
  let isGood = false;
  const follow: Client["follow"] = (_session, each) => (each.link("connecting"), (follows += 1), isGood ? new Promise(() => undefined) : failing(401, "unauthorized")());
  const { actions, now } = stage({ follow, agent: async () => (isGood ? FACE : failing(401, "unauthorized")()) }, "ses_1");
  await settled();
  assert.deepEqual([now().link, now().agent], ["broken", null]);
  isGood = true;
  actions.refresh();
  await settled();
  assert.deepEqual([now().problem, now().agent?.title, follows], [null, "Shop", 2]);
  actions.refresh();
  assert.equal(follows, 2, "a link that holds is left alone");
});

test("a server that says nothing of the agent changes nothing", async () => {
  const { actions, now, posts } = stage();
  actions.send("hello");
  await settled();
  assert.deepEqual([now().agent, now().problem, posts.length], [null, null, 1]);
});

test("a run whose model call is repeated says so until there is text, and a failure is never called stopped", () => {
  const started = (attempt: number, seq: number): Frame => ({ seq, type: "step.started", run: "run_1", parent_run: null, time: "", data: { n: 1, attempt, message: "msg_2", takes: attempt === 1 ? [3] : [] } });
  const { now, follower } = stage({}, "ses_1");
  const of = (type: string, seq: number, data: object): Frame => ({ seq, type, run: "run_1", parent_run: null, time: "", data }) as Frame;
  const last = (): Answer => entriesOf(now()).at(-1) as Answer;
  for (const frame of [received(3, "msg_1", "hi"), of("run.queued", 4, {}), of("run.started", 5, { epoch: 1 }), started(1, 6)]) follower().frame(frame);
  assert.equal(last().run?.trying ?? false, false);
  follower().frame(of("step.failed", 7, { n: 1, attempt: 1, retryable: true }));
  assert.deepEqual([last().thinking, last().run?.trying], [true, true]);
  follower().frame(started(2, 8));
  assert.equal(last().run?.trying, true);
  follower().frame(of("message.completed", 9, { message: "msg_2", role: "assistant", parts: [{ type: "text", text: "Half" }], partial: true, stop: "cancelled" }));
  follower().frame(of("run.failed", 10, { code: "lost", message: "m" }));
  assert.deepEqual([last().mark, last().run?.status], ["partial", "failed"]);
});

test("what the server refuses comes back, with its files; what did not arrive stays to be sent again", async () => {
  for (const [status, code] of [[413, "too_large"], [422, "invalid_request"], [429, "rate_limited"], [403, "forbidden"]] as const) {
    const { actions, now } = stage({ post: failing(status, code) });
    actions.send("text", [{ file: "file_1", name: "a.png", mime: "image/png", size: 1 }]);
    await settled();
    assert.deepEqual([now().outbox, now().refused?.text, now().refused?.files.length, now().refused?.problem?.code], [[], "text", 1, code]);
    actions.send("more");
    assert.equal(now().refused, null);
  }
  const { actions, now } = stage({ post: failing(503, "unavailable") });
  actions.send("text");
  await settled();
  assert.deepEqual([now().outbox[0]?.status, now().refused ?? null], ["failed", null]);
});

test("a message that came back unread keeps its key when it is sent again unchanged, in this conversation", async () => {
  const keys: string[] = [];
  const post = async (_session: string, _text: string, key: string): Promise<never> => {
    keys.push(key);
    throw refused();
  };
  const { actions } = stage({ post });
  for (const text of ["Hi", "Hi", "Ho", "Hi"]) {
    actions.send(text);
    await settled();
  }
  actions.renew();
  actions.send("Hi");
  await settled();
  assert.deepEqual(keys, ["k1", "k1", "k2", "k3", "k4"]);
});

test("a conversation begins with its newest part, and older parts come once when they are asked for", async () => {
  const frames = [received(1, "m_1", "one"), received(2, "m_2", "two"), received(3, "m_3", "three")];
  const asked: number[] = [];
  const page: Client["page"] = async (_session, before) => (asked.push(before), { after: before - 2, frames: frames.slice(before - 2, before - 1) });
  const { actions, now, follower } = stage({ page }, "ses_1");
  follower().begins?.(2);
  follower().frame(frames[2] as Frame);
  const shown = (): string[] => now().view.messages.map(({ id }) => id);
  assert.deepEqual(shown(), ["m_3"]);
  actions.older();
  actions.older();
  await settled();
  assert.deepEqual([shown(), asked, follower().cursor()], [["m_2", "m_3"], [3], 3]);
  actions.older();
  await settled();
  actions.older();
  await settled();
  assert.deepEqual([shown(), asked, now().problem], [["m_1", "m_2", "m_3"], [3, 2], null]);
});

test("a page of older messages that cannot be read is a problem, and is asked for again", async () => {
  let fails = true;
  const page: Client["page"] = async () => (fails ? gone() : { after: 0, frames: [received(1, "m_1", "one")] });
  const { actions, now, follower } = stage({ page }, "ses_1");
  follower().begins?.(1);
  follower().frame(received(2, "m_2", "two"));
  actions.older();
  await settled();
  assert.equal(now().problem?.status, 404);
  fails = false;
  actions.older();
  await settled();
  assert.equal(now().view.messages.length, 2);
});
