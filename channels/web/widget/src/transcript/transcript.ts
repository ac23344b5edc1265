/** The entries of a conversation on the page: the newest, and more as the person looks further up. */

import { setAttribute, setChildren } from "../dom.js";
import type { Message } from "../log/state.js";
import type { Conversation } from "../talk/conversation.js";
import { entriesOf, startOf, withDays, type Day, type Entry } from "./entries.js";
import { isNear } from "./scroll.js";
import type { Shown } from "./scene.js";

/** Messages that are drawn at least; as many more with each look further up, and at most twice as many at the end. */
const DRAWN = 100;

/** Return a function that draws the entries of a conversation, touching only the nodes that changed; *older* asks for messages that were not read yet. */
export function createTranscript(list: HTMLElement, greeting: HTMLElement, drawn: (entry: Entry | Day) => Shown<Entry | Day>, older: () => void, signal: AbortSignal): (conversation: Conversation) => void {
  let shown = new Map<string, readonly [Shown<Entry | Day>, Entry | Day]>();
  let last: Conversation | null = null;
  let from = 0;

  const draw = (conversation: Conversation): void => {
    const { messages, begin = 0 } = conversation.view;
    const above = last?.talk === conversation.talk && begin < (last.view.begin ?? 0) ? messages.indexOf(last.view.messages[0] as Message) : 0;
    last = conversation;
    if (above > 0) from += above; // what was read now is drawn when the person looks for it
    if (from > messages.length || (messages.length - from > 2 * DRAWN && isNear(list))) from = startOf(messages, messages.length - DRAWN);
    const next: typeof shown = new Map();
    const nodes = withDays(entriesOf(conversation, from), Date.now()).map((entry) => {
      const [row, before] = shown.get(entry.key) ?? [drawn(entry), entry];
      next.set(entry.key, [row, entry]);
      if (before !== entry) row.update(entry);
      return row.node;
    });
    shown = next;
    const loading = !nodes.length && conversation.link !== "idle";
    setAttribute(list, "aria-busy", loading ? "true" : "false");
    setChildren(list, nodes.length || (loading && conversation.link !== "open") ? nodes : [greeting]);
    if (above > 0 || (begin && list.clientHeight && list.scrollHeight <= list.clientHeight)) extend();
  };
  const extend = (): void => {
    if (!last || list.scrollTop > list.clientHeight) return;
    if (last.view.begin && from < DRAWN) older();
    if (!from) return;
    from = startOf(last.view.messages, from - DRAWN);
    draw(last); // what is read stays where it is, see `scroll.ts`
  };
  list.addEventListener("scroll", extend, { passive: true, signal });
  return draw;
}
