/** The card of a question to people: the exact call, what can be said to it, and how it was decided. */

import { mayDecide, type Decide, type Deciding, type Vote } from "../talk/deciding.js";
import type { Person } from "../log/events.js";
import { h, setAttribute, setChildren } from "../dom.js";
import { doubtIn } from "../wire/json.js";
import { argumentsNode, doubtNodes, editor, type Editor } from "./fields.js";
import { unmistakable } from "../legible.js";
import type { Approval, Call } from "../log/state.js";
import { explain } from "../words/strings.js";
import type { CardStrings } from "./words.js";

export interface Card {
  readonly node: HTMLElement;
  update(call: Call, deciding: Deciding | undefined): void;
}

type Mode = "look" | "edit" | "deny";

/** Return the card of *first*; *decide* takes what the person says. */
export function cardNode(first: Approval, decide: Decide, strings: CardStrings): Card {
  const words = strings.approval;
  const title = h("p", { class: "card-title", id: `t-${first.id}` }, unmistakable(first.title));
  const place = h("div", { class: "card-body" });
  const status = h("p", { class: "card-status", role: "status" });
  const node = h("section", { class: "card", "aria-labelledby": title.id }, title, place, status);
  let mode: Mode = "look";
  let last = "";
  let now: { approval: Approval; deciding: Deciding | undefined } = { approval: first, deciding: undefined };
  let draft: Draft = draftOf("look", first, strings);

  const go = (next: Mode): void => {
    mode = next;
    draft = draftOf(next, now.approval, strings);
    paint();
    place.querySelector<HTMLElement>("textarea, input, button")?.focus();
  };
  const say = (vote: Vote): void => decide(now.approval.id, vote);
  const paint = (): void => {
    const { approval, deciding } = now;
    const busy = deciding?.sending ?? false;
    const open = approval.status === "open";
    if (!open) mode = "look";
    setAttribute(node, "data-status", approval.status);
    setAttribute(node, "aria-busy", busy ? "true" : null);
    draft.fields?.mark(deciding?.problem?.errors ?? []);
    setChildren(place, bodyOf(approval, mode, draft, { go, say, busy }, strings));
    status.replaceChildren(...statusOf(approval, deciding, strings));
  };
  node.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || mode === "look") return;
    event.stopPropagation(); // Escape ends the form, not the run
    go("look");
  });
  setAttribute(node, "aria-description", words.label);
  return {
    node,
    update({ approval }, deciding) {
      if (!approval) return;
      const stamp = JSON.stringify([approval, deciding]);
      if (stamp === last) return;
      const kept = last !== "" && mode !== "look" && approval.status === "open" && !deciding?.problem;
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
}

function draftOf(mode: Mode, approval: Approval, strings: CardStrings): Draft {
  const words = strings.approval.reason;
  return {
    fields: mode === "edit" ? editor(approval.id, approval.arguments ?? {}, strings) : null,
    reason: mode === "deny" ? h("textarea", { rows: "2", maxlength: "2000", "aria-label": words, placeholder: words }) : null,
  };
}

interface Does {
  go(mode: Mode): void;
  say(vote: Vote): void;
  readonly busy: boolean;
}

function bodyOf(approval: Approval, mode: Mode, { fields, reason }: Draft, does: Does, strings: CardStrings): readonly Node[] {
  const detail = approval.detail ? [h("p", { class: "detail" }, unmistakable(approval.detail))] : [];
  const tool = h("p", { class: "card-tool" }, h("code", {}, unmistakable(approval.tool)));
  const rounded = doubtIn(approval.arguments) ? [h("p", { class: "note" }, strings.approval.rounded)] : [];
  const note = [...doubtNodes(approval.arguments ?? {}, strings), ...rounded];
  if (mode === "edit" && fields) return [...detail, tool, ...note, editForm(fields, does, strings)];
  const given = approval.arguments ? [argumentsNode(approval.arguments), ...note] : [];
  if (approval.status !== "open") return [...detail, tool, ...given];
  if (mode === "deny" && reason) return [...detail, tool, ...given, denyForm(reason, does, strings)];
  return [...detail, tool, ...given, mayDecide(approval) ? buttons(approval, does, strings) : waitsFor(approval, strings)];
}

function buttons(approval: Approval, { go, say, busy }: Does, strings: CardStrings): HTMLElement {
  const words = strings.approval;
  const button = (label: string, act: () => void, kind = ""): HTMLElement => {
    const made = h("button", { type: "button", class: `choice ${kind}`.trim(), disabled: busy }, label);
    made.addEventListener("click", act);
    return made;
  };
  const all = [button(words.approve, () => say({ approved: true }), "yes")];
  if (approval.remember) all.push(button(words.remember, () => say({ approved: true, remember: true })));
  if (approval.edit && doubtIn(approval.arguments) !== "lost") all.push(button(words.edit, () => go("edit")));
  all.push(button(words.deny, () => go("deny"), "no"));
  return h("div", { class: "choices" }, ...all);
}

function waitsFor({ responders }: Approval, strings: CardStrings): HTMLElement {
  const who = responders.map((each) => strings.approval.who[each] ?? unmistakable(each)).join(", ");
  return h("p", { class: "note" }, `${strings.approval.waits} ${who}.`);
}

function editForm(fields: Editor, does: Does, strings: CardStrings): HTMLElement {
  const submit = (): void => {
    const changed = fields.read();
    if (changed) does.say({ approved: true, arguments: changed });
  };
  return form([fields.node], strings.approval.approveEdited, "yes", submit, does, strings);
}

function denyForm(reason: HTMLTextAreaElement, does: Does, strings: CardStrings): HTMLElement {
  const submit = (): void => does.say({ approved: false, ...(reason.value.trim() && { reason: reason.value.trim() }) });
  return form([reason], strings.approval.deny, "no", submit, does, strings);
}

function form(fields: readonly Node[], label: string, kind: string, submit: () => void, { go, busy }: Does, strings: CardStrings): HTMLElement {
  const back = h("button", { type: "button", class: "choice" }, strings.approval.back);
  back.addEventListener("click", () => go("look"));
  const send = h("button", { type: "submit", class: `choice ${kind}`, disabled: busy }, label);
  const node = h("form", { class: "card-form", novalidate: true }, ...fields, h("div", { class: "choices" }, send, back));
  node.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  return node;
}

function statusOf(approval: Approval, deciding: Deciding | undefined, strings: CardStrings): readonly (Node | string)[] {
  const words = strings.approval;
  if (approval.status !== "open") {
    const who = approval.by ? ` ${words.by} ${nameOf(approval.by, words.you)}` : "";
    const when = approval.at ? `, ${clock(approval.at)}` : "";
    const edited = approval.edited && approval.status === "approved" ? ` ${words.edited}` : "";
    const why = approval.reason ? ` ${unmistakable(approval.reason)}` : "";
    return [`${words.status[approval.status]}${who}${when}.${edited}${why}`];
  }
  const placed = deciding?.problem?.errors.length && deciding.problem.errors.every(({ path }) => path.startsWith("arguments."));
  if (deciding?.problem && !placed) return [h("span", { class: "wrong" }, explain(deciding.problem, strings))];
  if (deciding?.sending) return [strings.sending];
  const votes = approval.quorum > 1 ? `${approval.yes} / ${approval.quorum} ${words.votes} · ` : "";
  return [`${votes}${words.until} ${clock(approval.until)}`];
}

/** Return the name to show for a person; a visitor without a name is the person at this page. */
function nameOf({ id, kind, name }: Person, you: string): string {
  return unmistakable(name || (kind === "visitor" ? you : id));
}

/** Return *time* as the page's language writes it, with the day when that is another one. */
function clock(time: number): string {
  const at = new Date(time);
  const isToday = at.toDateString() === new Date().toDateString();
  return isToday ? at.toLocaleTimeString([], { timeStyle: "short" }) : at.toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}
