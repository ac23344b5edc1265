/** The card of a question to people: the exact call, what can be said to it, and how it was decided. */

import { h, setAttribute, setChildren, setText } from "../dom.js";
import type { Fault } from "../log/events.js";
import { mayDecide, type Decide, type Deciding, type Vote } from "../talk/deciding.js";
import { doubtIn } from "../wire/json.js";
import { editor, type Editor } from "./form.js";
import { argumentsNode, doubtNodes } from "./given.js";
import { unmistakable } from "../legible.js";
import type { Approval, Call } from "../log/state.js";
import { explain } from "../words/strings.js";
import { goOn, holdsFocus, lead } from "./onward.js";
import { nextChange, outcome, timeLeft, waiting } from "./said.js";
import { defaultsOf, type Json } from "./schema.js";
import type { CardStrings } from "./words.js";

export interface Card {
  readonly node: HTMLElement;
  update(call: Call, deciding: Deciding | undefined): void;
}

type Mode = "look" | "edit" | "deny";

/** A question as its reader sees it: a visitor reads what the tool is called in words, an operator its name. */
interface Asked extends Approval {
  readonly isOperator: boolean;
  readonly toolTitle?: string | undefined;
}

/** Return the card of *first*; *decide* takes what the person says. */
export function cardNode(first: Approval, decide: Decide, strings: CardStrings, isOperator = false): Card {
  const words = strings.approval;
  const title = h("p", { class: "card-title", id: `t-${first.id}` }, h("bdi", {}, unmistakable(first.title)));
  const place = h("div", { class: "card-body" });
  const status = h("p", { class: "card-status", role: "status" });
  const summary = h("summary");
  const done = h("details", {}, summary);
  const node = h("section", { class: "card", "aria-labelledby": title.id, "aria-description": words.label }, title, place, status);
  let mode: Mode = "look";
  let last = "";
  let now: { approval: Asked; deciding: Deciding | undefined } = { approval: { ...first, isOperator }, deciding: undefined };
  let draft: Draft = draftOf(first.isForm ? "edit" : "look", first, strings);
  let timer: ReturnType<typeof setTimeout> | undefined;
  let voted = false;
  let refused: Deciding["problem"];
  let unplaced: readonly Fault[] = [];

  const go = (next: Mode): void => {
    mode = next;
    const { fields, remember } = draft;
    draft = { ...draftOf(next, now.approval, strings), remember, ...(now.approval.isForm && { fields }) };
    paint();
    lead(place.querySelector<HTMLElement>(next === "look" && !now.approval.isForm ? "button" : "textarea, input, select, button"));
  };
  const say = (vote: Vote): void => {
    voted = true;
    decide(now.approval.id, { ...vote, ...(vote.approved && draft.remember?.checked && { remember: true }) });
  };
  const tick = (): void => {
    clearTimeout(timer);
    if (now.approval.status !== "open" || !node.isConnected) return;
    setChildren(status, statusOf(now.approval, now.deciding, unplaced, strings));
    const wait = nextChange(now.approval.until, Date.now());
    if (wait < Infinity) timer = setTimeout(tick, wait);
  };
  const paint = (): void => {
    const { approval, deciding } = now;
    const busy = deciding?.sending ?? false;
    const open = approval.status === "open";
    setAttribute(node, "data-status", approval.status);
    setAttribute(node, "aria-busy", busy ? "true" : null);
    if (!open) return close(approval);
    setChildren(place, openBody(approval, mode, draft, { go, say, busy }, strings));
    if (deciding?.problem !== refused) {
      refused = deciding?.problem;
      unplaced = draft.fields?.mark(refused?.errors ?? []) ?? refused?.errors ?? [];
    }
    setChildren(status, statusOf(approval, deciding, unplaced, strings));
    tick();
  };
  /** Show one line for a question that is over; what it was about opens. */
  const close = (approval: Asked): void => {
    const isLeft = holdsFocus(node, voted);
    clearTimeout(timer);
    setText(summary, outcome(approval, words, strings.locale));
    setText(status, outcome(approval, words, strings.locale));
    status.className = "hidden";
    setChildren(place, closedBody(approval, strings));
    setChildren(done, [summary, title, place]);
    setChildren(node, [done, status]);
    if (isLeft) goOn(node);
    voted = false;
  };
  node.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !(event.target as Element).closest("form")) return;
    event.stopPropagation(); // Escape ends the form, not the run
    if (mode !== "look") go("look");
  });
  return {
    node,
    update({ approval: asked, title: toolTitle }, deciding) {
      if (!asked) return;
      const approval = { ...asked, isOperator, toolTitle };
      const stamp = JSON.stringify([approval, deciding]);
      if (stamp === last) return;
      const isWritten = mode !== "look" || (approval.isForm && draft.fields?.changed());
      const kept = last !== "" && isWritten && approval.status === "open" && !deciding?.problem;
      last = stamp;
      now = { approval, deciding };
      if (kept && !deciding?.sending) return; // what is being written must not be taken away
      paint();
    },
  };
}

/** What is being written: it outlives every repaint of the card. */
interface Draft {
  readonly fields: Editor | null;
  readonly reason: HTMLTextAreaElement | null;
  readonly remember: HTMLInputElement | null;
}

function draftOf(mode: Mode, approval: Approval, strings: CardStrings): Draft {
  const { id, schema, isForm } = approval;
  const words = strings.approval;
  return {
    fields: mode === "edit" ? editor(id, schema, givenOf(approval), strings, isForm) : null,
    reason: mode === "deny" ? h("textarea", { rows: "2", maxlength: "2000", "aria-label": words.reason, placeholder: words.reason }) : null,
    remember: approval.remember ? h("input", { type: "checkbox", id: `r-${id}` }) : null,
  };
}

/** Return what is asked about; of a form that is not answered its defaults: older logs have values that nobody gave. */
function givenOf({ arguments: given = {}, schema, isForm, status }: Approval): Json {
  return isForm && schema && status !== "approved" ? defaultsOf(schema, given) : given;
}

interface Does {
  go(mode: Mode): void;
  say(vote: Vote): void;
  readonly busy: boolean;
}

function openBody(approval: Asked, mode: Mode, { fields, reason, remember }: Draft, does: Does, strings: CardStrings): readonly Node[] {
  if (!mayDecide(approval)) return [...closedBody(approval, strings), h("p", { class: "note" }, waiting(approval, strings.approval, approval.isOperator))];
  if (mode === "deny" && reason) return [...closedBody(approval, strings), denyForm(reason, approval, does, strings)];
  if (fields) return [...aboutNodes(approval), ...notesOf(approval, strings), editForm(fields, remember, approval, does, strings)];
  return [...closedBody(approval, strings), ...rememberNodes(remember, strings), buttons(approval, does, strings)];
}

/** Return the call as it is asked about, to be read. */
function closedBody(approval: Asked, strings: CardStrings): readonly Node[] {
  const given = givenOf(approval);
  const list = Object.keys(given).length ? [argumentsNode(given, approval.schema, strings, approval.isForm)] : [];
  return [...aboutNodes(approval), ...list, ...notesOf(approval, strings)];
}

function aboutNodes({ detail, tool, title, toolTitle, isOperator }: Asked): readonly Node[] {
  const more = detail ? [h("p", { class: "detail", dir: "auto" }, unmistakable(detail))] : [];
  if (isOperator || !toolTitle) return [...more, h("p", { class: "card-tool" }, h("code", {}, unmistakable(tool)))];
  return toolTitle === title ? more : [...more, h("p", { class: "card-tool" }, h("bdi", {}, unmistakable(toolTitle)))];
}

function notesOf({ arguments: given }: Approval, strings: CardStrings): readonly Node[] {
  return [...doubtNodes(given ?? {}, strings), ...(doubtIn(given) ? [h("p", { class: "note" }, strings.approval.rounded)] : [])];
}

function rememberNodes(remember: HTMLInputElement | null, strings: CardStrings): readonly Node[] {
  return remember ? [h("div", { class: "flag" }, remember, h("label", { for: remember.id }, strings.approval.remember))] : [];
}

function button(label: string, act: () => void, busy: boolean, kind = ""): HTMLElement {
  const made = h("button", { type: "button", class: `choice ${kind}`.trim(), disabled: busy }, label);
  made.addEventListener("click", act);
  return made;
}

function buttons(approval: Approval, { go, say, busy }: Does, strings: CardStrings): HTMLElement {
  const words = strings.approval;
  const all = [button(words.approve, () => say({ approved: true }), busy, "yes"), button(words.deny, () => go("deny"), busy, "no")];
  if (approval.edit && doubtIn(approval.arguments) !== "lost") all.push(button(words.edit, () => go("edit"), busy, "plain"));
  return h("div", { class: "choices" }, ...all);
}

function editForm(fields: Editor, remember: HTMLInputElement | null, { isForm }: Approval, does: Does, strings: CardStrings): HTMLElement {
  const words = strings.approval;
  const submit = (): void => {
    const changed = fields.read();
    if (changed) does.say({ approved: true, arguments: changed });
  };
  const other = isForm ? button(words.decline, () => does.go("deny"), does.busy, "no") : button(words.back, () => does.go("look"), false);
  return form([fields.node, ...rememberNodes(remember, strings)], isForm ? words.submit : words.approveEdited, "yes", submit, other, does);
}

function denyForm(reason: HTMLTextAreaElement, { isForm }: Approval, does: Does, strings: CardStrings): HTMLElement {
  const words = strings.approval;
  const submit = (): void => does.say({ approved: false, ...(reason.value.trim() && { reason: reason.value.trim() }) });
  return form([reason], isForm ? words.decline : words.deny, "no", submit, button(words.back, () => does.go("look"), false), does);
}

function form(fields: readonly Node[], label: string, kind: string, submit: () => void, other: HTMLElement, { busy }: Does): HTMLElement {
  const send = h("button", { type: "submit", class: `choice ${kind}`, disabled: busy }, label);
  const node = h("form", { class: "card-form", novalidate: true }, ...fields, h("div", { class: "choices" }, send, other));
  node.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  return node;
}

/** Return what a question says of itself while it is open; *left* are faults that no field has. */
function statusOf(approval: Approval, deciding: Deciding | undefined, left: readonly Fault[], strings: CardStrings): readonly Node[] {
  const words = strings.approval;
  const problem = deciding?.problem;
  const text = (said: string): readonly Node[] => [document.createTextNode(said)];
  if (problem && (left.length || !problem.errors.length)) return [h("span", { class: "wrong" }, explain(problem, strings))];
  if (deciding?.sending) return text(strings.sending);
  const votes = approval.quorum > 1 && words.votes.replace("{yes}", `${approval.yes}`).replace("{quorum}", `${approval.quorum}`);
  const time = mayDecide(approval) && timeLeft(approval.until, Date.now(), words, strings.locale);
  return text([votes, time].filter(Boolean).join(" · "));
}
