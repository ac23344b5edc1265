/** The entries of a conversation on the page. */

import { setAttribute, setChildren } from "../dom.js";
import type { Conversation } from "../talk/conversation.js";
import { entriesOf, type Entry } from "./entries.js";
import type { Shown } from "./scene.js";

/** Return a function that draws the entries of a conversation, touching only the nodes that changed. */
export function createTranscript(list: HTMLElement, greeting: HTMLElement, drawn: (entry: Entry) => Shown<Entry>): (conversation: Conversation) => void {
  let shown = new Map<string, Shown<Entry>>();
  return (conversation) => {
    const next = new Map<string, Shown<Entry>>();
    const nodes = entriesOf(conversation).map((entry) => {
      const known = shown.get(entry.key) ?? drawn(entry);
      next.set(entry.key, known);
      known.update(entry);
      return known.node;
    });
    shown = next;
    const loading = !nodes.length && conversation.link !== "idle";
    setAttribute(list, "aria-busy", loading ? "true" : "false");
    setChildren(list, nodes.length || (loading && conversation.link !== "open") ? nodes : [greeting]);
  };
}
