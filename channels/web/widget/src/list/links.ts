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
  return new URLSearchParams(hash.replace(/^#/, "")).get(NAME);
}

/** Open the session that *named* says or, where the page has links, the address; that again when the address changes. */
export function openLinked(actions: Actions, named: string | null, links: boolean, signal: AbortSignal): void {
  const open = (session: string | null): void => void (session && actions.open(session));
  open((links ? linkedIn(location.hash) : null) ?? named);
  if (links) addEventListener("hashchange", () => open(linkedIn(location.hash)), { signal });
}
