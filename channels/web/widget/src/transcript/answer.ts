/** An answer as a node: its blocks, and the notes below them. */

import { h, icon, setAttribute, setChildren, setText } from "../dom.js";
import type { Strings } from "../words/strings.js";
import type { Answer, Block } from "./entries.js";
import { fileNode } from "./file.js";
import { drawn } from "./renders.js";
import { extra, hidden, quiet, type Scene, type Shown } from "./scene.js";
import { reasoningNode, textNode } from "./text.js";
import { toolNode } from "./tool.js";

const SPARK = "M12 3l1.9 5.1L19 10l-5.1 1.9L12 17l-1.9-5.1L5 10l5.1-1.9zM19 16l.8 2.2L22 19l-2.2.8L19 22l-.8-2.2L16 19l2.2-.8z";

export function answerNode(scene: Scene): Shown<Answer> {
  const { strings } = scene;
  const body = h("div", { class: "blocks" });
  const foot = h("div", { class: "notes" });
  const dots = h("div", { class: "dots", role: "img", "aria-label": strings.thinking }, h("i"), h("i"), h("i"));
  const trying = h("p", { class: "note" }, strings.trying);
  const avatar = h("div", { class: "avatar", "aria-hidden": "true" }, icon(SPARK));
  const name = h("div", { class: "by" });
  scene.dress?.(avatar);
  const more = h("div", { class: scene.offers ? "under" : null });
  const turn = h("div", { class: "turn" }, body, foot, more);
  const showMore = extra<Answer>(scene, ({ answerFoot }, { markdownNodes }) => answerFoot(more, body, scene, (text) => markdownNodes(text, strings)));
  const node = h("article", { class: "entry answer", part: "answer" }, hidden(strings.assistant), avatar, turn);
  const shown = new Map<string, Shown<Block>>();
  let noted = "";
  return {
    node,
    update(answer) {
      setAttribute(node, "aria-busy", answer.busy ? "true" : "false");
      if (answer.by !== null && !name.parentNode) {
        setText(name, answer.by || strings.person);
        setAttribute(avatar, "data-agent", null);
        avatar.replaceChildren([...name.textContent][0] ?? "");
        node.firstElementChild?.remove(); // the name says who answers, also to a reader of the screen
        turn.prepend(name);
      }
      const nodes = answer.blocks.map((block) => {
        const known = shown.get(block.key) ?? blockNode(block, scene);
        shown.set(block.key, known);
        known.update(block);
        return known.node;
      });
      const waits = answer.thinking ? [dots, ...(answer.run?.trying ? [trying] : [])] : [];
      setChildren(body, [...nodes, ...waits]);
      const isAsked = answer.blocks.some((block) => block.kind === "tool" && block.call.approval?.status === "open"); // its card says what it waits for
      const stamp = JSON.stringify([answer.mark, answer.run, answer.again, answer.asked, isAsked]);
      if (stamp !== noted) foot.replaceChildren(...notes(answer, isAsked, strings));
      noted = stamp;
      if (!answer.busy) showMore(answer);
    },
  };
}

function notes({ mark, run, again, asked }: Answer, isAsked: boolean, strings: Strings): readonly Node[] {
  const all: Node[] = [];
  if (run?.unseen) all.push(h("p", { class: "note" }, strings.unseen));
  if (run?.leftOut) all.push(h("p", { class: "note" }, [strings.leftOut, ...run.leftOut].join(" · ")));
  if (mark) all.push(h("p", { class: "note" }, strings[mark]));
  const ended = run?.status === "completed" && run.stopReason ? strings.ended[run.stopReason] : undefined;
  if (ended) all.push(h("p", { class: "note" }, ended));
  if (run?.status === "waiting" && !isAsked) all.push(h("p", { class: "note" }, strings.waiting));
  if (run?.status === "requires_action") all.push(h("p", { class: "note" }, strings.action));
  if (run?.status === "failed") {
    const known = strings.failed[run.code ?? ""];
    const retry = again && quiet(strings.retry, "data-again", again.text);
    if (retry) retry.dataset["files"] = JSON.stringify(again.files);
    if (retry && asked) retry.dataset["asked"] = asked;
    all.push(h("div", { class: "failure" }, h("p", {}, known ?? strings.failure), !known && run.error && h("p", { class: "detail" }, run.error), retry));
  }
  return all;
}

function blockNode(block: Block, scene: Scene): Shown<Block> {
  switch (block.kind) {
    case "text":
      return textNode(scene) as Shown<Block>;
    case "reasoning":
      return reasoningNode(scene) as Shown<Block>;
    case "tool":
    case "tools":
      return toolNode(scene) as Shown<Block>;
    case "render":
      return still(drawn(block.render, scene));
    case "file":
      return still(fileNode(block.file, scene));
  }
}

function still(node: HTMLElement): Shown<Block> {
  return { node, update: () => undefined };
}
