/** Following the newest text; once the person has scrolled up, what is read stays where it is, whatever changes its size. */

import { h, icon } from "../dom.js";
import type { Strings } from "../words/strings.js";
import { moved, readIn, type Place } from "./reading.js";

export interface Scroller {
  /** The button that leads back to the newest text. */
  readonly node: HTMLElement;
  /** Go down, and with each change, wherever the person is. */
  follow(): void;
}

const DOWN = "M12 5v14M5 12l7 7 7-7";
const NEAR = 48; // pixels from the end that still count as being there
const OPENS = "summary, [aria-expanded]"; // what opens and closes something below it

/** Return whether *list* shows its end. */
export function isNear({ scrollHeight, scrollTop, clientHeight }: HTMLElement): boolean {
  return scrollHeight - scrollTop - clientHeight < NEAR;
}

export function createScroller(list: HTMLElement, strings: Strings, signal: AbortSignal): Scroller {
  const node = h("button", { type: "button", class: "round latest", "aria-label": strings.latest, title: strings.latest }, icon(DOWN));
  let following = true;
  let reading: readonly Place[] = [];
  let top = 0;
  let toggled = false; // something was opened or closed since the last scroll
  const read = (): void => {
    reading = following ? [] : readIn(list);
    node.hidden = following;
  };
  const settle = (): void => {
    if (!list.clientHeight) return; // in a closed launcher
    const by = following ? 0 : moved(reading, list);
    if (by) list.scrollTop += by;
    const before = following;
    following ||= by === null || (toggled && isNear(list)); // another conversation is shown, or what was opened is closed again
    if (following) list.scrollTop = list.scrollHeight;
    if (by || following !== before) read();
  };
  // What is drawn later, as charts, pictures and formatted text are, comes before the frame is painted. So does half a list, under a phone's keyboard.
  const resized = new ResizeObserver(settle);
  const changed = new MutationObserver((records) => {
    for (const { addedNodes, removedNodes } of records) {
      for (const node of removedNodes) if (node.parentNode !== list) resized.unobserve(node as Element);
      for (const node of addedNodes) if (node.parentNode === list) resized.observe(node as Element);
    }
  });
  const onScroll = (): void => {
    following = isNear(list) || (following && list.scrollTop >= top); // what grew meanwhile is no scrolling up
    top = list.scrollTop;
    toggled = false;
    read();
  };
  /** What the person opens is read where it is; the reason of a rating, below the newest answer, is shown. */
  const onClick = ({ target }: Event): void => {
    if (!(target as Element).closest(OPENS)) return;
    toggled = true;
    requestAnimationFrame(() => {
      following &&= isNear(list);
      read();
    });
  };
  const follow = (): void => {
    following = true;
    read();
    settle();
  };
  node.hidden = true;
  resized.observe(list);
  changed.observe(list, { childList: true });
  signal.addEventListener("abort", () => (resized.disconnect(), changed.disconnect()), { once: true });
  list.addEventListener("scroll", onScroll, { passive: true, signal });
  list.addEventListener("click", onClick, { signal });
  node.addEventListener("click", follow, { signal });
  return { node, follow };
}
