/** A person's message as a node. */

import { h, setAttribute, setText } from "../dom.js";
import { explain } from "../words/strings.js";
import type { Question } from "./entries.js";
import { fileNode } from "./file.js";
import { extra, hidden, quiet, type Scene, type Shown } from "./scene.js";

export function questionNode(scene: Scene): Shown<Question> {
  const { strings } = scene;
  const bubble = h("div", { class: "bubble", part: "question", dir: "auto" });
  const foot = h("div", { class: "foot" });
  const files = h("div", { class: "enclosed" });
  const more = h("div", { class: "under" });
  const node = h("article", { class: "entry question" }, hidden(strings.you), files, bubble, foot, ...(scene.offers ? [more] : []));
  const showMore = extra<Question>(scene, ({ questionFoot }) => questionFoot(more, bubble, scene));
  let last = "";
  return {
    node,
    update(question) {
      const { tag, outgoing, run, text } = question;
      if (scene.offers && !outgoing) showMore(question);
      const stamp = JSON.stringify([text, tag, run, outgoing?.status]);
      if (stamp === last) return;
      last = stamp;
      setText(bubble, text);
      if (!files.firstChild) files.append(...question.files.map((each) => fileNode(each, scene)));
      setAttribute(node, "data-tag", tag);
      const reason = outgoing?.problem && tag === "unsent" ? `${strings.unsent}: ${explain(outgoing.problem, strings)}` : null;
      const resend = tag === "unsent" && quiet(strings.retry, "data-resend", question.key);
      const withdraw = run !== null && quiet(strings.withdraw, "data-withdraw", run);
      foot.replaceChildren(...[reason ?? (tag ? strings[tag] : ""), resend, withdraw].filter((each) => each !== false));
    },
  };
}
