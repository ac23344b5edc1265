/** The line under the header: what is wrong with the link, and what can be done. */

import { h, setAttribute } from "../dom.js";
import type { Conversation } from "../talk/conversation.js";
import { explain, type Strings } from "../words/strings.js";

/** Show in *node* what is wrong, if anything. */
export function banner(node: HTMLElement, { link, problem, lost }: Conversation, strings: Strings): void {
  const said = problem ? explain(problem, strings) : lost ? strings.lost : link === "reconnecting" ? strings.reconnecting : "";
  const text = link === "broken" ? `${strings.broken} ${said}` : said;
  setAttribute(node, "data-tone", problem ? "error" : link === "reconnecting" ? "wait" : text ? "info" : null);
  if (node.dataset["said"] === `${link} ${text}`) return;
  node.dataset["said"] = `${link} ${text}`;
  const retry = link === "broken" && h("button", { type: "button", class: "quiet", "data-reconnect": true }, strings.retry);
  const dismiss = link !== "broken" && (problem !== null || lost) && h("button", { type: "button", class: "quiet", "data-dismiss": true }, strings.dismiss);
  node.replaceChildren(...[text && h("span", {}, text), retry, dismiss].filter((each) => each !== false && each !== ""));
}
