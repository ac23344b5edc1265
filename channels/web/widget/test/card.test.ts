import assert from "node:assert/strict";
import { test } from "node:test";
import { JSDOM } from "jsdom";
import { cardNode, type Card } from "../src/cards/card.js";
import { confirmStop } from "../src/cards/onward.js";
import { timeLeft, waiting } from "../src/cards/said.js";
import { whole } from "../src/cards/words.js";
import { mayDecide, type Deciding, type Vote } from "../src/talk/deciding.js";
import { stopRun } from "../src/frame/verbs.js";
import type { Load } from "../src/lazy.js";
import type { Frame } from "../src/log/events.js";
import { reduce } from "../src/log/reduce.js";
import { EMPTY, type Approval, type Call, type RunStatus, type ViewState } from "../src/log/state.js";
import type { Actions, Conversation } from "../src/talk/conversation.js";
import { answerNode } from "../src/transcript/answer.js";
import { entriesOf, type Answer } from "../src/transcript/entries.js";
import type { Scene } from "../src/transcript/scene.js";
import { explain, STRINGS } from "../src/words/strings.js";

const { window } = new JSDOM("<!doctype html><body>");
Object.assign(globalThis, { document: window.document, AbortController: window.AbortController, AbortSignal: window.AbortSignal, Node: window.Node });

const ASKED: Approval = {
  id: "apr_1",
  tool: "pay",
  title: "May it be <b>paid</b>?",
  detail: "From the till.",
  arguments: { amount: 5, note: "a\nb", urgent: false, to: { iban: "CH1" } },
  responders: ["asker", "operators"],
  quorum: 1,
  yes: 0,
  until: 0, // else each card would wait for its next minute
  edit: true,
  remember: true,
  status: "open",
  edited: false,
};

function shown(changes: Partial<Approval> = {}): { card: Card; votes: [string, Vote][]; set: (approval: Partial<Approval>, deciding?: Deciding) => void } {
  const votes: [string, Vote][] = [];
  const asked = { ...ASKED, ...changes };
  const card = cardNode(asked, (id, vote) => votes.push([id, vote]), whole(STRINGS));
  const set = (more: Partial<Approval>, deciding?: Deciding): void =>
    card.update({ id: "call_1", run: "run_1", message: null, name: "pay", status: "waiting", approval: { ...asked, ...more } }, deciding);
  window.document.body.replaceChildren(card.node);
  set({});
  return { card, votes, set };
}

const buttons = ({ node }: Card): string[] => [...node.querySelectorAll("button")].map((each) => each.textContent ?? "");
const said = ({ node }: Card): string => node.querySelector("summary")?.textContent ?? "";
function press({ node }: Card, label: string): void {
  const button = [...node.querySelectorAll("button")].find((each) => each.textContent === label);
  assert.ok(button, `no button ${label}`);
  button.click();
}

test("a card shows the exact call, whole and as text, and what can be said", () => {
  const { card } = shown();
  assert.equal(card.node.querySelector(".card-title")?.textContent, "May it be <b>paid</b>?");
  assert.equal(card.node.getAttribute("aria-labelledby"), card.node.querySelector(".card-title")?.id);
  const values = [...card.node.querySelectorAll("dd")].map((each) => each.textContent);
  assert.deepEqual(values, ["5", "a\nb", "no", '{\n  "iban": "CH1"\n}']);
  assert.deepEqual(buttons(card), ["Approve", "Deny", "Edit"]);
  assert.match(card.node.querySelector("[role=status]")?.textContent ?? "", /^less than a minute left to decide$/);
});

test("what hides, turns or passes for something else is written by number, and mixed scripts are noted", () => {
  const { card } = shown({ title: "pay\u202eme", tool: "p\u200bay", arguments: { to: "p\u0430ypal.com", "x\u2066": "fine" } });
  const text = card.node.textContent ?? "";
  for (const wanted of ["pay\\u{202e}me", "p\\u{200b}ay", "p\\u{430}ypal.com", "X\\u{2066}"]) assert.ok(text.includes(wanted), wanted);
  assert.doesNotMatch(text, /[\p{C}\u0430]/u);
  const notes = [...card.node.querySelectorAll(".note")].map((each) => each.textContent);
  assert.deepEqual(notes, ["Look closely: to mixes Latin and Cyrillic letters."]);
});

test("yes, yes for the conversation, and no with a reason are said once each", () => {
  const { card, votes } = shown();
  press(card, "Approve");
  (card.node.querySelector("input[type=checkbox]") as HTMLInputElement).click();
  press(card, "Approve");
  press(card, "Deny");
  (card.node.querySelector("textarea") as HTMLTextAreaElement).value = "  Too much. ";
  press(card, "Deny");
  assert.deepEqual(votes.map(([, vote]) => vote), [{ approved: true }, { approved: true, remember: true }, { approved: false, reason: "Too much." }]);
});

test("corrected arguments keep their kinds, and what cannot be read is said at its field", () => {
  const { card, votes, set } = shown();
  press(card, "Edit");
  const [amount, note, to] = [...card.node.querySelectorAll("textarea")] as [HTMLTextAreaElement, HTMLTextAreaElement, HTMLTextAreaElement];
  (card.node.querySelector("input") as HTMLInputElement).checked = true;
  amount.value = "three";
  note.value = "x";
  press(card, "Approve with these changes");
  assert.deepEqual(votes, []);
  assert.equal(amount.getAttribute("aria-invalid"), "true");
  assert.match(card.node.querySelector(".wrong")?.textContent ?? "", /not valid/);
  amount.value = "3";
  to.value = '{"iban": "CH2"}';
  press(card, "Approve with these changes");
  assert.deepEqual(votes, [["apr_1", { approved: true, arguments: { amount: 3, note: "x", urgent: true, to: { iban: "CH2" } } }]]);
  const problem = Object.assign(new Error("No."), { status: 422, code: "invalid_request", retryAfter: null, errors: [{ path: "arguments.amount", message: "too much" }] });
  set({}, { sending: false, problem });
  assert.match(card.node.textContent ?? "", /too much/);
  assert.equal(card.node.querySelector("textarea"), amount, "what was written is still there");
  assert.equal(amount.value, "3");
});

test("what is being written stays while the rest of the page changes", () => {
  const { card, set } = shown();
  press(card, "Deny");
  const area = card.node.querySelector("textarea") as HTMLTextAreaElement;
  area.value = "Because";
  set({ yes: 1 });
  assert.equal(card.node.querySelector("textarea"), area);
  area.dispatchEvent(new window.KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
  assert.equal(card.node.querySelector("textarea"), null);
});

test("a decided card says who, when and why, and has no buttons", () => {
  const { card, set } = shown();
  press(card, "Edit");
  set({ status: "approved", by: { id: "bob", name: "Bob" }, at: Date.now(), edited: true });
  assert.deepEqual(buttons(card), []);
  assert.match(said(card), /^Approved by Bob, .*The input was changed\.$/);
  assert.ok(card.node.querySelector("details")?.querySelector("dl"), "what was decided opens");
  set({ status: "denied", by: { id: "eve" }, at: Date.now(), reason: "Too much." });
  assert.match(said(card), /^Denied by eve, .* Too much\.$/);
  set({ status: "expired" });
  assert.equal(said(card), "No decision came in time");
  set({ status: "approved", by: { id: "operator", kind: "service" } });
  assert.equal(said(card), "Approved by the team");
});

test("a person who may not decide sees whom it waits for; a refusal and a count are shown", () => {
  const { card } = shown({ responders: ["operators"] });
  assert.deepEqual(buttons(card), []);
  assert.match(card.node.textContent ?? "", /Waiting for the team to approve this\./);
  assert.equal(card.node.querySelector("[role=status]")?.textContent, "", "how long others have is not theirs to watch");
  const quorum = shown({ quorum: 2 });
  quorum.set({ yes: 1 }, undefined);
  assert.match(quorum.card.node.querySelector("[role=status]")?.textContent ?? "", /^1 of 2 approvals/);
  const problem = Object.assign(new Error("x"), { status: 403, code: "not_an_approver", retryAfter: null, errors: [] });
  quorum.set({ yes: 1 }, { sending: false, problem });
  assert.match(quorum.card.node.textContent ?? "", /You may not decide this/);
});

test("a visitor reads what the tool is called in words, an operator and one without a title its name", () => {
  const tool = (title: string | undefined, isOperator: boolean): string | null | undefined => {
    const card = cardNode(ASKED, () => undefined, whole(STRINGS), isOperator);
    card.update({ id: "call_1", run: "run_1", message: null, name: "pay", title, status: "waiting", approval: ASKED }, undefined);
    return card.node.querySelector(".card-tool")?.textContent;
  };
  assert.deepEqual([tool("Pay a bill", false), tool("Pay a bill", true), tool(undefined, false)], ["Pay a bill", "pay", "pay"]);
  assert.equal(tool(ASKED.title, false), undefined, "what the question says already");
});

test("the buttons wait while an answer is on its way", () => {
  const { card, set } = shown();
  set({}, { sending: true });
  assert.ok([...card.node.querySelectorAll("button")].every((each) => each.disabled));
  assert.equal(card.node.getAttribute("aria-busy"), "true");
});

test("the right to decide follows from the policy and from what may be seen", () => {
  const { arguments: _hidden, ...without } = ASKED;
  assert.equal(mayDecide(ASKED), true);
  assert.equal(mayDecide(without), false);
  assert.equal(mayDecide({ ...ASKED, responders: ["anyone", "not_asker"] }), false);
  assert.equal(mayDecide({ ...ASKED, responders: ["slack:S1"] }), false);
});

const SCHEMA = { type: "object", properties: { amount: { type: "integer", title: "Amount in cents", minimum: 1 }, to: { type: "object", properties: { iban: { type: "string", title: "Account" } } } } };

test("a card reads as its schema says, and what the server finds is at its field, which has the focus", () => {
  const { card, votes, set } = shown({ schema: SCHEMA });
  const names = [...card.node.querySelectorAll("dt")].map((each) => each.textContent);
  assert.deepEqual(names, ["Amount in cents", "Note", "Urgent", "To", "Account"]);
  press(card, "Edit");
  const amount = card.node.querySelector("input[type=number]") as HTMLInputElement;
  amount.value = "0";
  press(card, "Approve with these changes");
  assert.deepEqual(votes, []);
  assert.equal(window.document.activeElement, amount);
  amount.value = "7";
  press(card, "Approve with these changes");
  assert.deepEqual(votes[0]?.[1], { approved: true, arguments: { amount: 7, note: "a\nb", urgent: false, to: { iban: "CH1" } } });
  const problem = Object.assign(new Error("No."), { status: 422, code: "invalid_request", retryAfter: null, errors: [{ path: "arguments.amount", message: "too much" }, { path: "approved", message: "odd" }] });
  window.document.body.focus();
  set({}, { sending: false, problem });
  assert.equal(card.node.querySelector(".field .wrong")?.textContent, "too much");
  assert.equal(card.node.querySelector("[role=status] .wrong")?.textContent, explain(problem, STRINGS));
  assert.equal(window.document.activeElement, amount);
});

test("a form of a tool is there to be filled in at once, with its defaults alone", () => {
  const form = { type: "object", properties: { mail: { type: "string", format: "email" }, size: { enum: ["S", "M"], default: "M" }, count: { type: "integer" } }, required: ["mail", "count"] };
  const { card, votes } = shown({ isForm: true, schema: form, arguments: { mail: "", size: "M", count: 0 }, remember: false });
  assert.deepEqual(buttons(card), ["Send", "Decline"]);
  const [mail, count, size] = ["input[type=email]", "input[type=number]", "select"].map((each) => card.node.querySelector(each) as HTMLInputElement) as [HTMLInputElement, HTMLInputElement, HTMLInputElement];
  assert.deepEqual([mail.value, count.value, size.value], ["", "", "1"]);
  press(card, "Send");
  assert.equal(votes.length, 0);
  assert.equal(card.node.querySelectorAll("[aria-invalid]").length, 2);
  [mail.value, count.value] = ["a@b.example", "2"];
  press(card, "Decline");
  press(card, "Back");
  press(card, "Send");
  assert.deepEqual(votes[0]?.[1], { approved: true, arguments: { mail: "a@b.example", size: "M", count: 2 } });
});

test("a form invents nothing: a yes or no that is required is chosen, and its choices are called by their titles", () => {
  const size = { oneOf: [{ const: "s", title: "Small" }, { const: "l", title: "Large" }] };
  const form = { type: "object", properties: { agreed: { type: "boolean" }, size }, required: ["agreed", "size"] };
  const { card, votes, set } = shown({ isForm: true, schema: form, arguments: { agreed: false, size: "s" }, remember: false });
  const [agreed, which] = [...card.node.querySelectorAll("select")] as [HTMLSelectElement, HTMLSelectElement];
  assert.deepEqual([...which.options].map((each) => each.textContent), ["Choose…", "Small", "Large"]);
  press(card, "Send");
  assert.deepEqual([votes.length, card.node.querySelectorAll("[aria-invalid]").length], [0, 2]);
  [agreed.value, which.value] = ["1", "1"];
  press(card, "Send");
  assert.deepEqual(votes[0]?.[1], { approved: true, arguments: { agreed: false, size: "l" } });
  set({ mayDecide: false });
  assert.equal(card.node.querySelector("dl"), null, "what an older log made up is shown to nobody");
});

test("after a decision the focus goes to the next question, and after the last to the composer", () => {
  const [first, second] = [shown({ id: "apr_1" }), shown({ id: "apr_2" })];
  const form = window.document.createElement("form");
  form.className = "composer";
  form.append(window.document.createElement("textarea"));
  window.document.body.replaceChildren(first.card.node, second.card.node, form);
  const button = first.card.node.querySelector(".yes") as HTMLButtonElement;
  button.focus();
  button.click();
  first.set({}, { sending: true });
  (window.document.activeElement as HTMLElement | null)?.blur(); // as browsers do with what is disabled
  first.set({ status: "approved", by: { id: "bob", name: "Bob" } });
  assert.ok(second.card.node.contains(window.document.activeElement));
  second.set({ status: "denied" });
  assert.equal(window.document.activeElement, form.firstChild);
  first.set({ status: "denied", reason: "late" });
  assert.equal(window.document.activeElement, form.firstChild, "the focus is taken from no place where it is");
});

test("for whom a question waits is never an empty name", () => {
  const said = (responders: readonly string[], more: Partial<Approval> = {}): string => waiting({ ...ASKED, responders, ...more }, whole(STRINGS).approval);
  assert.equal(said([]), "Waiting for the team to approve this.");
  assert.equal(said(["slack:"]), "Waiting for the team to approve this.");
  assert.equal(said(["operators", "asker"]), "Waiting for the team or the person who asked to approve this.");
  assert.equal(said(["not_asker"]), "Waiting for someone else to approve this.");
  assert.equal(said(["slack:S1", "group:S0123", "actor:bob"]), "Waiting for the team to approve this.", "ids say nothing to a visitor");
  const operators = { ...ASKED, responders: ["slack:S1", "actor:bob"] };
  assert.equal(waiting(operators, whole(STRINGS).approval, true), "Waiting for S1 or bob to approve this.");
  assert.equal(said([], { isForm: true }), "Waiting for the team to answer this.");
});

test("how long there is left is said in words", () => {
  const said = (seconds: number): string => timeLeft(seconds * 1000, 0, whole(STRINGS).approval, STRINGS.locale);
  const [minute, hour] = [60, 3600];
  assert.deepEqual([20, 90, 5 * minute, 3 * hour, 72 * hour, -1].map(said), [
    "less than a minute left to decide", "2 minutes left to decide", "5 minutes left to decide", "3 hours left to decide", "3 days left to decide", "less than a minute left to decide",
  ]);
});

test("a stop asks before it withdraws a question; Escape says no", () => {
  const stopped: number[] = [];
  const composer = window.document.createElement("form");
  composer.append(window.document.createElement("textarea"));
  window.document.body.replaceChildren(composer);
  const ask = (): HTMLElement => {
    confirmStop(composer, whole(STRINGS), () => stopped.push(1));
    return window.document.querySelector("[role=alertdialog]") as HTMLElement;
  };
  assert.equal(ask().textContent, "Stop and withdraw the question?StopKeep waiting");
  assert.equal(window.document.activeElement?.textContent, "Keep waiting");
  confirmStop(composer, whole(STRINGS), () => stopped.push(1));
  assert.equal(window.document.querySelectorAll("[role=alertdialog]").length, 1);
  window.document.activeElement?.dispatchEvent(new window.KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
  assert.deepEqual([stopped.length, composer.hidden, window.document.activeElement === composer.firstChild], [0, false, true]);
  (ask().querySelector(".no") as HTMLElement).click();
  assert.deepEqual([stopped.length, composer.hidden], [1, false]);
});

test("a run that people are asked about is stopped once that is confirmed, any other at once", async () => {
  const stopped: string[] = [];
  const asked: (() => void)[] = [];
  const load = (async () => ({ confirm: (_place: unknown, _words: unknown, stop: () => void) => asked.push(stop) })) as unknown as Load;
  const run = (status: RunStatus): ViewState["runs"] => [{ id: "run_1", status, started: true, cancelling: false }];
  const stop = (view: Partial<ViewState>): void => stopRun({ ...EMPTY, ...view }, { stop: (id: string) => stopped.push(id) } as unknown as Actions, window.document.body, load, STRINGS);
  const waits = (status: Approval["status"]): ViewState["calls"] => [{ id: "call_1", run: "run_1", message: null, name: "pay", status: "waiting", approval: { ...ASKED, status } }];
  stop({});
  stop({ runs: run("running"), calls: waits("denied") });
  assert.deepEqual(stopped, ["run_1"]);
  stop({ runs: run("waiting"), calls: waits("open") });
  await Promise.resolve();
  assert.deepEqual([stopped.length, asked.length], [1, 1]);
  asked[0]?.();
  assert.deepEqual(stopped, ["run_1", "run_1"]);
});

test("an answer says that it waits for an approval only where no card says it", () => {
  const scene = { strings: STRINGS, load: () => new Promise(() => undefined) } as unknown as Scene;
  const call: Call = { id: "call_1", run: "run_1", message: null, name: "pay", status: "waiting", approval: ASKED };
  const notes = (blocks: Answer["blocks"]): string | null | undefined => {
    const shown = answerNode(scene);
    const run = { id: "run_1", status: "waiting", started: true, cancelling: false } as const;
    shown.update({ kind: "answer", key: "m", time: 0, blocks, busy: true, thinking: false, run, mark: null, by: null, again: null, newest: true, asked: null, feedback: undefined });
    return shown.node.querySelector(".notes")?.textContent;
  };
  assert.deepEqual([notes([{ kind: "tool", key: "c", call }]), notes([])], ["", "Waiting for an approval."]);
});

test("a message that waits for a decision says so", () => {
  const [envelope, text] = [{ run: "run_1", parent_run: null, time: "2026-01-05T09:00:00Z", session: "s" }, (said: string) => [{ type: "text", text: said }]];
  const log = [
    ["message.received", { message: "msg_1", parts: text("Pay"), actor: { id: "ada" } }], ["run.queued", {}], ["run.started", { epoch: 1 }], ["step.started", { n: 1, attempt: 1, message: "msg_2", takes: [1] }],
    ["tool.requested", { call: "call_1", name: "pay", arguments: {}, index: 0, step: 1 }],
    ["approval.requested", { approval: "apr_1", call: "call_1", tool: "pay", title: "Pay?", responders: ["operators"], quorum: 1, timeout_s: 300, parameters: { properties: {} } }],
    ["tool.pending", { call: "call_1", on: "approval" }], ["run.waiting", { on: ["approval"] }],
    ["message.received", { message: "msg_3", parts: text("And?"), actor: { id: "ada" } }],
  ] as const;
  const frames = log.map(([type, data], at) => ({ ...envelope, seq: at + 1, type, data, ...(at === 8 && { run: "run_2" }) }) as unknown as Frame);
  const tag = (upTo: Frame[]): unknown => {
    const view = upTo.reduce(reduce, EMPTY);
    const rest = { outbox: [], link: "open", problem: null, lost: false, stopping: [], decisions: {} } as unknown as Omit<Conversation, "view">;
    return entriesOf({ ...rest, view }).flatMap((entry) => (entry.kind === "question" ? [entry.tag] : []));
  };
  assert.deepEqual(tag(frames), [null, "held"]);
  const decided = { ...envelope, seq: 10, type: "approval.decided", data: { approval: "apr_1", call: "call_1", status: "approved" } } as unknown as Frame;
  assert.deepEqual(tag([...frames, decided]), [null, "queued"]);
  assert.deepEqual(frames.reduce(reduce, EMPTY).calls[0]?.approval?.schema, { properties: {} });
});
