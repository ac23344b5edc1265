import assert from "node:assert/strict";
import { test } from "node:test";
import { JSDOM } from "jsdom";
import { cardNode, type Card } from "../src/cards/card.js";
import { whole } from "../src/cards/words.js";
import { mayDecide, type Deciding, type Vote } from "../src/talk/deciding.js";
import type { Approval } from "../src/log/state.js";
import { STRINGS } from "../src/words/strings.js";

const { window } = new JSDOM("<!doctype html><body>");
Object.assign(globalThis, { document: window.document, Node: window.Node });

const ASKED: Approval = {
  id: "apr_1",
  tool: "pay",
  title: "May it be <b>paid</b>?",
  detail: "From the till.",
  arguments: { amount: 5, note: "a\nb", urgent: false, to: { iban: "CH1" } },
  responders: ["asker", "operators"],
  quorum: 1,
  yes: 0,
  until: Date.now() + 300_000,
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
  assert.match(card.node.querySelector("[role=status]")?.textContent ?? "", /^[45] minutes left to decide$/);
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
  const quorum = shown({ quorum: 2 });
  quorum.set({ yes: 1 }, undefined);
  assert.match(quorum.card.node.querySelector("[role=status]")?.textContent ?? "", /^1 of 2 approvals/);
  const problem = Object.assign(new Error("x"), { status: 403, code: "not_an_approver", retryAfter: null, errors: [] });
  quorum.set({ yes: 1 }, { sending: false, problem });
  assert.match(quorum.card.node.textContent ?? "", /You may not decide this/);
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
