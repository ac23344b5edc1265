/** Links to a conversation: the part of an address after `#parley=`, and the attribute `conversation`. */

import type { Actions } from "../talk/conversation.js";

const NAME = "parley";

/** Return the address of this page with *session* in it. */
export function linkTo(session: string): string {
  const address = new URL(location.href);
  address.hash = new URLSearchParams({ [NAME]: session }).toString();
  return address.href;
}

/** Return the session that *hash*, of an address, names. */
export function linkedIn(hash: string): string | null {
  return new URLSearchParams(hash.replace(/^#/, "")).get(NAME) || null;
}

/**
 * Open the session that *named* says or, where the page has links, the address; that again when the address changes.
 *
 * Each is done once in a tab, under *key*: what a person chooses later stays when the page is loaded again.
 */
export function openLinked(actions: Actions, named: string | null, links: boolean, signal: AbortSignal, key: string): void {
  const place = `named of ${key}`;
  const open = async (session: string | null, isNamed = false): Promise<void> => {
    if (session === null || !(await actions.open(session))) return; // it is tried again with the next page
    if (isNamed) remember(place, session);
    else if (linkedIn(location.hash) === session) unlink();
  };
  const linked = links ? linkedIn(location.hash) : null;
  if (linked !== null && named !== null) remember(place, named); // the link is the newer wish
  if (linked !== null) void open(linked);
  else if (named && remembered(place) !== named) void open(named, true);
  if (links) addEventListener("hashchange", () => void open(linkedIn(location.hash)), { signal });
}

/** Take the conversation out of the address, which keeps its state and what else it says. */
function unlink(): void {
  const address = new URL(location.href);
  const rest = new URLSearchParams(address.hash.slice(1));
  rest.delete(NAME);
  address.hash = rest.toString();
  history.replaceState(history.state, "", address);
}

function remembered(place: string): string | null {
  try {
    return sessionStorage.getItem(place);
  } catch {
    return null; // a browser without storage opens it with each page
  }
}

function remember(place: string, session: string): void {
  try {
    sessionStorage.setItem(place, session);
  } catch {
    return; // as above
  }
}
