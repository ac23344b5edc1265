/** The nodes of one entry of the transcript, and how they change. */

import { cardNode, type Card, type Decide } from "./card.js";
import type { Answer, Block, Entry, Question } from "./entries.js";
import type { Part } from "./events.js";
import { h, icon, setAttribute, setChildren, setText } from "./dom.js";
import { markdownIn } from "./markdown.js";
import { textOnly, type Draw } from "./renders.js";
import { textOf, type Call } from "./state.js";
import { explain, type Strings } from "./strings.js";

/** A node that can be brought up to date. */
export interface Shown<T> {
  readonly node: HTMLElement;
  update(value: T): void;
}

const SPARK = "M12 3l1.9 5.1L19 10l-5.1 1.9L12 17l-1.9-5.1L5 10l5.1-1.9zM19 16l.8 2.2L22 19l-2.2.8L19 22l-.8-2.2L16 19l2.2-.8z";

/** Return the node of *entry*, drawn; *decide* takes what is said to a question, *draw* gives what a render shows. */
export function showEntry(entry: Entry, strings: Strings, decide: Decide, draw: Draw = textOnly): Shown<Entry> {
  const shown = entry.kind === "question" ? questionNode(strings) : answerNode(strings, decide, draw);
  shown.update(entry as never);
  return shown as Shown<Entry>;
}

function questionNode(strings: Strings): Shown<Question> {
  const bubble = h("div", { class: "bubble" });
  const foot = h("div", { class: "foot" });
  const node = h("article", { class: "entry question" }, hidden(strings.you), bubble, foot);
  let last = "";
  return {
    node,
    update(question) {
      const { tag, outgoing, run, text } = question;
      const stamp = JSON.stringify([text, tag, run, outgoing?.status]);
      if (stamp === last) return;
      last = stamp;
      setText(bubble, text);
      setAttribute(node, "data-tag", tag);
      const reason = outgoing?.problem && tag === "unsent" ? `${strings.unsent}: ${explain(outgoing.problem, strings)}` : null;
      const resend = tag === "unsent" && button(strings.retry, "data-resend", question.key);
      const withdraw = run !== null && button(strings.withdraw, "data-withdraw", run);
      foot.replaceChildren(...[reason ?? (tag ? strings[tag] : ""), resend, withdraw].filter((each) => each !== false));
    },
  };
}

function answerNode(strings: Strings, decide: Decide, draw: Draw): Shown<Answer> {
  const body = h("div", { class: "blocks" });
  const foot = h("div", { class: "notes" });
  const dots = h("div", { class: "dots", role: "img", "aria-label": strings.thinking }, h("i"), h("i"), h("i"));
  const avatar = h("div", { class: "avatar", "aria-hidden": "true" }, icon(SPARK));
  const name = h("div", { class: "by" });
  const turn = h("div", { class: "turn" }, body, foot);
  const node = h("article", { class: "entry answer" }, hidden(strings.assistant), avatar, turn);
  const shown = new Map<string, Shown<Block>>();
  let noted = "";
  return {
    node,
    update(answer) {
      setAttribute(node, "aria-busy", answer.busy ? "true" : "false");
      if (answer.by !== null && !name.parentNode) {
        setText(name, answer.by || strings.person);
        avatar.replaceChildren([...name.textContent][0] ?? "");
        node.firstElementChild?.remove(); // the name says who answers, also to a reader of the screen
        turn.prepend(name);
      }
      const nodes = answer.blocks.map((block) => {
        const known = shown.get(block.key) ?? blockNode(block, strings, decide, draw);
        shown.set(block.key, known);
        known.update(block);
        return known.node;
      });
      setChildren(body, answer.thinking ? [...nodes, dots] : nodes);
      const stamp = JSON.stringify([answer.mark, answer.run, answer.again]);
      if (stamp !== noted) foot.replaceChildren(...notes(answer, strings));
      noted = stamp;
    },
  };
}

function notes({ mark, run, again }: Answer, strings: Strings): readonly Node[] {
  const all: Node[] = [];
  if (mark) all.push(h("p", { class: "note" }, strings[mark]));
  const ended = run?.status === "completed" && run.stopReason ? strings.ended[run.stopReason] : undefined;
  if (ended) all.push(h("p", { class: "note" }, ended));
  if (run?.status === "waiting") all.push(h("p", { class: "note" }, strings.waiting));
  if (run?.status === "requires_action") all.push(h("p", { class: "note" }, strings.action));
  if (run?.status === "failed") {
    const title = strings.failed[run.code ?? ""] ?? strings.failure;
    const retry = again !== null && button(strings.retry, "data-again", again);
    all.push(h("div", { class: "failure" }, h("p", {}, title), run.error && h("p", { class: "detail" }, run.error), retry));
  }
  return all;
}

function blockNode(block: Block, strings: Strings, decide: Decide, draw: Draw): Shown<Block> {
  switch (block.kind) {
    case "text":
      return textNode(strings) as Shown<Block>;
    case "reasoning":
      return reasoningNode(strings) as Shown<Block>;
    case "tool":
      return toolNode(block.call, strings, decide) as Shown<Block>;
    case "render":
      return still(draw(block.render));
    case "file":
      return still(h("p", { class: "file" }, block.name));
  }
}

function textNode(strings: Strings): Shown<Block & { kind: "text" }> {
  const node = h("div", { class: "text" });
  const write = markdownIn(node, strings);
  let stamp = "";
  return {
    node,
    update({ text, open }) {
      if (stamp === `${open}${text}`) return;
      stamp = `${open}${text}`;
      node.classList.toggle("open", open);
      write(text, !open);
    },
  };
}

function reasoningNode(strings: Strings): Shown<Block & { kind: "reasoning" }> {
  const text = h("div", { class: "detail" });
  const node = h("details", { class: "reasoning" }, h("summary", {}, strings.reasoning), text);
  return { node, update: (block) => setText(text, block.text) };
}

/** A line per call; where the reader may see what went in and out, it opens. */
function toolNode(_: Call, strings: Strings, decide: Decide): Shown<Block & { kind: "tool" }> {
  const status = h("span", { class: "status" });
  const name = h("b");
  const line = [h("i", { class: "light", "aria-hidden": "true" }), name, status];
  const node = h("div", { class: "tool" }, h("div", { class: "line" }, ...line));
  const details = h("details");
  let last: Call | null = null;
  let card: Card | null = null;
  return {
    node,
    update({ call, deciding }) {
      if (call.approval) {
        card ??= cardNode(call.approval, decide, strings);
        card.update(call, deciding);
        if (!card.node.parentNode) node.append(card.node);
      }
      if (call === last) return;
      last = call;
      setAttribute(node, "data-status", call.status);
      setText(name, call.title ?? call.name);
      setText(status, statusOf(call, strings));
      const inside = detailsOf(call, strings);
      if (!inside.length) return;
      if (!details.parentNode) {
        details.append(h("summary", { class: "line" }, ...line));
        node.replaceChildren(details, ...(card ? [card.node] : []));
      }
      details.replaceChildren(details.firstChild as Node, ...inside);
    },
  };
}

function statusOf(call: Call, strings: Strings): string {
  if (call.status === "running" && call.progress) return call.progress;
  const status = call.status === "waiting" && call.on === "client" ? strings.onPage : strings.tool[call.status];
  return call.seconds ? `${status} · ${call.seconds} s` : status;
}

function detailsOf(call: Call, strings: Strings): readonly Node[] {
  const box = (label: string, text: string): Node => h("div", { class: "box" }, h("span", {}, label), h("pre", { tabindex: "0" }, text));
  const all: Node[] = [];
  if (call.arguments && !call.approval) all.push(box(strings.arguments, JSON.stringify(call.arguments, null, 2)));
  const result = call.result && resultText(call.result);
  if (result) all.push(box(strings.result, call.truncated ? `${result}\n${strings.truncated}` : result));
  return all;
}

function resultText(parts: readonly Part[]): string {
  return textOf(parts) || parts.map((part) => (part.type === "file" ? part.name : part.type)).join(", ");
}

function still(node: HTMLElement): Shown<Block> {
  return { node, update: () => undefined };
}

function button(label: string, attribute: string, value: string): HTMLElement {
  return h("button", { type: "button", class: "quiet", [attribute]: value }, label);
}

function hidden(text: string): HTMLElement {
  return h("span", { class: "hidden" }, text);
}
