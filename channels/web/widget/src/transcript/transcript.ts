/** The entries of a conversation on the page. */

import { setAttribute, setChildren } from "../dom.js";
import type { Conversation } from "../talk/conversation.js";
import { entriesOf, withDays, type Day, type Entry } from "./entries.js";
import type { Shown } from "./scene.js";

/** Return a function that draws the entries of a conversation, touching only the nodes that changed. */
export function createTranscript(list: HTMLElement, greeting: HTMLElement, drawn: (entry: Entry | Day) => Shown<Entry | Day>): (conversation: Conversation) => void {
  let shown = new Map<string, Shown<Entry | Day>>();
  return (conversation) => {
    const next = new Map<string, Shown<Entry | Day>>();
    const nodes = withDays(entriesOf(conversation), Date.now()).map((entry) => {
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
