import assert from "node:assert/strict";
import { test } from "node:test";
import type { Frame } from "../src/log/events.js";
import { converse, type Actions, type Conversation } from "../src/talk/conversation.js";
import { entriesOf } from "../src/transcript/entries.js";
import type { Client, Follower, Posted } from "../src/wire/client.js";
import { heldMemory, type HeldMemory } from "./memory.js";
import { json, problem } from "./server.js";

interface Stage {
  readonly actions: Actions;
  readonly now: () => Conversation;
  readonly memory: HeldMemory;
  /** What was posted: session, text. */
  readonly posts: string[][];
  /** What else was asked for: method, path, body. */
  readonly asked: string[];
  /** Bring frames of *session* in. */
  readonly frames: (session: string, ...frames: Frame[]) => void;
  readonly see: (isVisible: boolean) => void;
}

type Answer = (method: string, path: string) => Response | Promise<Response>;

function stage(answer: Answer = () => problem(404, "not_found"), remembered: string | null = "ses_1", client: Partial<Client> = {}): Stage {
  const values: Conversation[] = [];
  const [posts, asked, followers] = [[] as string[][], [] as string[], new Map<string, Follower>()];
  let [keys, opened, seq, isVisible] = [0, 0, 7, true];
  const post = async (session: string, text: string): Promise<Posted> => (posts.push([session, text]), { message_id: `m${(seq += 1)}`, run_id: "run_9", seq });
  const whole = {
    request: async (path: string, init: RequestInit = {}) => {
      const { method = "GET", body } = init;
      asked.push([method, path, body].filter(Boolean).join(" "));
      const response = await answer(method, path);
      if (!response.ok) throw Object.assign(new Error("no"), { status: response.status, code: ((await response.json()) as { code: string }).code, errors: [] });
      return response;
    },
    agent: () => Promise.reject(new Error("not asked here")),
    ratings: async () => ({}),
    open: async () => `ses_new${(opened += 1)}`,
    post,
    cancel: async () => undefined,
    follow: (session: string, follower: Follower) => (followers.set(session, follower), new Promise<void>(() => undefined)),
    ...client,
  } as unknown as Client;
  const memory = heldMemory(remembered);
  const { signal } = new AbortController();
  const actions = converse({
    client: whole, agent: null, memory, signal, newKey: () => `k${(keys += 1)}`, called: () => undefined,
    changed: (each) => void values.push(each), more: () => import("../src/list/talks.js"), visible: () => isVisible,
  });
  actions.start();
  const frames = (session: string, ...given: Frame[]): void => given.forEach((each) => followers.get(session)?.frame(each));
  return { actions, memory, posts, asked, frames, now: () => values.at(-1) as Conversation, see: (is) => (isVisible = is) };
}

const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));
const frame = (seq: number, type: string, run: string, data: object): Frame => ({ seq, type, run, parent_run: null, time: "2026-01-05T09:00:00.000Z", data }) as unknown as Frame;
/** An exchange: a question *from* its fact on, and its answer four facts later. */
const exchange = (from: number, name: string, run = `run_${name}`): Frame[] => [
  frame(from, "message.received", run, { message: `q_${name}`, parts: [{ type: "text", text: `ask ${name}` }] }),
  frame(from + 1, "run.started", run, { epoch: 1 }),
  frame(from + 2, "step.started", run, { message: `a_${name}`, takes: [from] }),
  frame(from + 3, "message.completed", run, { message: `a_${name}`, role: "assistant", parts: [{ type: "text", text: `say ${name}` }], stop: "done" }),
  frame(from + 4, "run.completed", run, { stop_reason: "done" }),
];
const texts = (now: Conversation): string[] =>
  entriesOf(now).flatMap((entry) => {
    if (entry.kind === "question") return [entry.text];
    return entry.kind === "answer" ? entry.blocks.flatMap((block) => (block.kind === "text" ? [block.text] : [])) : [];
  });

test("an edited message goes into a copy; what came before stays on the screen while that is read", async () => {
  const made = stage((method) => (method === "POST" ? json(201, { id: "ses_2" }) : problem(404, "not_found")));
  made.frames("ses_1", ...exchange(3, "one"), ...exchange(8, "two"));
  assert.equal(await made.actions.edit("q_two", "ask again"), true);
  assert.deepEqual(made.asked, ['POST /v1/web/conversations/ses_1/branch {"message":"q_two"}']);
  assert.deepEqual(texts(made.now()), ["ask one", "say one", "ask again"]);
  await settled();
  assert.deepEqual([made.posts, made.now().session, made.memory.load(), made.memory.moves], [[["ses_2", "ask again"]], "ses_2", "ses_2", [["ses_1", "ses_2", 7]]]);
  made.frames("ses_2", ...exchange(3, "one", "run_copy").slice(0, 3));
  assert.deepEqual(texts(made.now()), ["ask one", "say one", "ask again"], "a part of the copy is not shown");
  made.frames("ses_2", ...exchange(3, "one", "run_copy").slice(3));
  made.frames("ses_2", frame(8, "message.received", "run_9", { message: "q_new", parts: [{ type: "text", text: "ask again" }] }));
  assert.deepEqual(texts(made.now()), ["ask one", "say one", "ask again"]);
  assert.deepEqual([made.now().view.seq, made.now().talk], [8, 0]);
});

test("a message is asked once more with its text and its files", async () => {
  const posted: unknown[] = [];
  const made = stage(() => json(201, { id: "ses_2" }), "ses_1", {
    post: async (session, text, _key, _signal, files) => (posted.push([session, text, files]), { message_id: "m", run_id: "r", seq: 4 }),
  });
  const file = { type: "file", file: "file_1", name: "a.pdf", mime: "application/pdf", size: 3 };
  made.frames("ses_1", frame(3, "message.received", "run_1", { message: "q", parts: [{ type: "text", text: "read it" }, file] }));
  assert.equal(await made.actions.regenerate("q"), true);
  await settled();
  assert.deepEqual(posted, [["ses_2", "read it", ["file_1"]]]);
});

test("a message that cannot be said again says why, and everything stays", async () => {
  const made = stage(() => problem(409, "session_busy"));
  made.frames("ses_1", ...exchange(3, "one"));
  assert.equal(await made.actions.edit("q_one", "ask again"), false);
  assert.deepEqual([made.now().problem?.code, made.now().session, texts(made.now()), made.posts], ["session_busy", "ses_1", ["ask one", "say one"], []]);
  assert.equal(await made.actions.edit("q_one", "  "), false);
  assert.equal(made.asked.length, 1, "nothing is asked of the server for an empty message");
});

test("two clicks make one copy", async () => {
  const made = stage(() => json(201, { id: "ses_2" }));
  made.frames("ses_1", ...exchange(3, "one"));
  assert.deepEqual(await Promise.all([made.actions.regenerate("q_one"), made.actions.regenerate("q_one")]), [true, false]);
  await settled();
  assert.deepEqual([made.asked.length, made.posts.length], [1, 1]);
});

test("another tab goes along to the copy, and one that shows something else does not", async () => {
  const made = stage();
  made.frames("ses_1", ...exchange(3, "one"));
  made.memory.otherTab("ses_8", "ses_7");
  assert.equal(made.now().session, "ses_1");
  made.memory.otherTab("ses_2", "ses_1");
  made.frames("ses_2", ...exchange(3, "other"));
  assert.deepEqual([made.now().session, texts(made.now()), made.memory.moves], ["ses_2", ["ask other", "say other"], []]);
});

test("a message to a conversation that went on elsewhere, on another device, goes there too", async () => {
  const posts: string[] = [];
  const made = stage((_, path) => json(200, path.endsWith("ses_1") ? { id: "ses_1", replaced_by: "ses_2" } : { id: "ses_2", replaced_by: null }), "ses_1", {
    post: async (session) => {
      posts.push(session);
      if (session === "ses_1") throw Object.assign(new Error("closed"), { status: 409, code: "session_closed" });
      return { message_id: "m", run_id: "r", seq: 3 };
    },
  });
  made.actions.send("hello");
  await settled();
  assert.deepEqual([posts, made.now().session], [["ses_1", "ses_2"], "ses_2"]);
});

test("another conversation is opened where it is the visitor's; else that is said, and one's own stays", async () => {
  const made = stage((_, path) => (path.endsWith("ses_2") ? json(200, { id: "ses_2" }) : problem(404, "not_found")));
  made.frames("ses_1", ...exchange(3, "one"));
  assert.equal(await made.actions.open("ses_foreign"), false);
  assert.deepEqual([made.now().problem?.code, made.now().session, texts(made.now())], ["not_found", "ses_1", ["ask one", "say one"]]);
  assert.equal(await made.actions.open("ses_2"), true);
  assert.deepEqual([made.now().session, made.now().talk, made.now().problem, texts(made.now()), made.memory.load()], ["ses_2", 1, null, [], "ses_2"]);
  made.frames("ses_1", ...exchange(8, "late"));
  assert.deepEqual(texts(made.now()), []);
});

test("a link to what went on as another opens that; not a copy in which nothing was said", async () => {
  const at = (second: number): string => `2026-01-05T09:00:0${second}.000Z`;
  for (const [copied, opened] of [[9, "ses_6"], [4, "ses_5"], [3, "ses_5"]] as const) {
    const made = stage((_, path) =>
      json(200, path.endsWith("ses_5") ? { id: "ses_5", replaced_by: "ses_6", last_activity_at: at(4) } : { id: "ses_6", replaced_by: null, last_activity_at: at(copied) }),
    );
    await made.actions.open("ses_5");
    assert.equal(made.now().session, opened);
  }
});

test("a message on its way arrives in its own conversation, whatever is opened meanwhile", async () => {
  const made = stage(() => json(200, { id: "ses_2" }), null);
  made.actions.send("first");
  made.actions.renew();
  made.actions.send("second");
  await settled();
  assert.deepEqual(made.posts, [["ses_new1", "first"], ["ses_new2", "second"]]);
  assert.equal(made.now().session, "ses_new2");
});

test("what could not be sent is a draft of its conversation", async () => {
  const made = stage(() => json(200, { id: "ses_2" }), "ses_1", { post: () => Promise.reject(Object.assign(new Error("no"), { status: 0, code: "network" })) });
  made.actions.write("half");
  made.actions.send("lost");
  await settled();
  await made.actions.open("ses_2");
  assert.equal(made.memory.draft("ses_1"), "lost\n\nhalf");
  made.actions.send("late");
  made.actions.renew();
  await settled();
  assert.equal(made.memory.draft("ses_2"), "late");
});

test("a first message that could not be sent is there after the page is reloaded, and with what was written elsewhere", async () => {
  const made = stage(undefined, null, { open: () => Promise.reject(Object.assign(new Error("no"), { status: 0, code: "network" })) });
  const file = { file: "file_1", name: "a.txt", mime: "text/plain", size: 10 };
  made.actions.send("first", [file]);
  await settled();
  assert.equal(made.now().outbox[0]?.status, "failed");
  made.actions.write("half");
  made.memory.reclaim(null); // as the next page does
  assert.deepEqual([made.actions.draft(), made.actions.attached()], ["first\n\nhalf", [file]]);
});

test("a message that fails when its conversation was left leaves what was written there", async () => {
  let fail: (error: object) => void = () => undefined;
  const made = stage(() => json(200, { id: "ses_2" }), "ses_1", { post: () => new Promise((_, reject) => (fail = reject)) });
  made.actions.send("late");
  made.actions.write("half");
  await made.actions.open("ses_2");
  fail(Object.assign(new Error("no"), { status: 0, code: "network" }));
  await settled();
  assert.equal(made.memory.draft("ses_1"), "late\n\nhalf");
  made.actions.send("again");
  await settled();
  made.actions.renew();
  await made.actions.open("ses_2");
  fail(Object.assign(new Error("no"), { status: 0, code: "network" }));
  await settled();
  assert.equal(made.now().refused?.text, "again", "it comes back to where it is written");
});

test("the draft of a new conversation stays when the message of the one before opens that", async () => {
  const made = stage(undefined, null);
  made.actions.send("first");
  made.actions.renew();
  made.actions.write("other");
  await settled();
  assert.deepEqual([made.actions.draft(), made.memory.draft("ses_new1")], ["other", ""]);
});

test("a draft belongs to its conversation, also to one that its first message opens", async () => {
  const made = stage(undefined, null);
  made.actions.write("hel");
  assert.equal(made.actions.draft(), "hel");
  made.actions.write("");
  made.actions.send("hello");
  made.actions.write("and");
  await settled();
  assert.deepEqual([made.actions.draft(), made.memory.draft("ses_new1"), made.memory.draft(null)], ["and", "and", ""]);
  made.actions.renew();
  assert.equal(made.actions.draft(), "");
});

test("answers that cannot be seen are counted, until they can", async () => {
  const made = stage();
  made.frames("ses_1", ...exchange(3, "one"));
  await settled();
  assert.deepEqual([made.now().unread, made.memory.seen("ses_1")], [0, 6]);
  made.see(false);
  made.frames("ses_1", ...exchange(8, "two"), ...exchange(13, "three"));
  made.actions.seen();
  assert.deepEqual([made.now().unread, made.memory.seen("ses_1")], [2, 6]);
  made.see(true);
  made.actions.seen();
  assert.deepEqual([made.now().unread, made.memory.seen("ses_1")], [0, 17]);
});

test("what was read before the page came is not unread, and what came since is", () => {
  const made = stage();
  made.memory.see("ses_1", 6);
  made.see(false);
  made.actions.reconnect();
  made.frames("ses_1", ...exchange(3, "one"), ...exchange(8, "two"));
  assert.equal(made.now().unread, 1);
});

test("a conversation is renamed and deleted; the one that is open gives way to a new one", async () => {
  const made = stage((method) => (method === "DELETE" ? new Response(null, { status: 204 }) : json(200, { id: "x" })));
  made.frames("ses_1", ...exchange(3, "one"));
  assert.equal(await made.actions.rename("ses_7", "Kettle"), true);
  assert.equal(await made.actions.remove("ses_7"), true);
  assert.equal(made.now().session, "ses_1");
  assert.equal(await made.actions.remove("ses_1"), true);
  assert.deepEqual([made.now().session, made.now().lost, made.memory.load(), made.memory.seen("ses_1")], [null, false, null, undefined]);
  assert.deepEqual(made.asked, [
    'PATCH /v1/web/conversations/ses_7 {"title":"Kettle"}',
    "DELETE /v1/web/conversations/ses_7",
    "DELETE /v1/web/conversations/ses_1",
  ]);
});
