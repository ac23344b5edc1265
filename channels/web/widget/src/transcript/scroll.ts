/** Following the newest text, unless the person has scrolled up to read. */

import { h, icon } from "../dom.js";
import type { Strings } from "../words/strings.js";

export interface Scroller {
  /** The button that leads back to the newest text. */
  readonly node: HTMLElement;
  /** Go down with the next change, wherever the person is. */
  follow(): void;
  /** Call after each change of the list. */
  settle(): void;
}

const DOWN = "M12 5v14M5 12l7 7 7-7";
const NEAR = 48; // pixels from the end that still count as being there

/** Return whether *list* shows its end. */
export function isNear({ scrollHeight, scrollTop, clientHeight }: HTMLElement): boolean {
  return scrollHeight - scrollTop - clientHeight < NEAR;
}

export function createScroller(list: HTMLElement, strings: Strings, signal: AbortSignal): Scroller {
  const node = h("button", { type: "button", class: "round latest", "aria-label": strings.latest, title: strings.latest }, icon(DOWN));
  let following = true;
  const goDown = (): void => {
    if (following) list.scrollTop = list.scrollHeight;
    node.hidden = following;
  };
  const grown = new ResizeObserver(goDown); // a chart or a picture may come after what it is part of, and a keyboard takes half of the room
  let last: Element | null = null;
  const settle = (): void => {
    if (last !== list.lastElementChild) {
      grown.disconnect();
      grown.observe(list);
      last = list.lastElementChild;
      if (last) grown.observe(last);
    }
    goDown();
  };
  let top = 0;
  const onScroll = (): void => {
    following = isNear(list) || (following && list.scrollTop >= top); // what grew meanwhile is no scrolling up
    top = list.scrollTop;
    node.hidden = following;
  };
  const follow = (): void => {
    following = true;
    settle();
  };
  node.hidden = true;
  signal.addEventListener("abort", () => grown.disconnect(), { once: true });
  list.addEventListener("scroll", onScroll, { passive: true, signal });
  node.addEventListener("click", follow, { signal });
  return { node, follow, settle };
}
