/** The list of conversations as a value: pages as the server orders them, the first of which is read again and again. */

import type { Page, Session, Wanted } from "./api.js";
import { WORDS } from "./words.js";

export interface Listing {
  readonly items: readonly Session[];
  readonly next: string | null;
  readonly loaded: boolean;
}

export const NO_LISTING: Listing = { items: [], next: null, loaded: false };

/**
 * Return *listing* with its first page read again as *page*.
 *
 * What is not on that page moved down, or is gone: it is gone if something that was listed after it, and has not changed
 * since, is on the page.
 */
export function refreshed(listing: Listing, page: Page<Session>): Listing {
  if (page.next_cursor === null || !listing.loaded) return { items: page.items, next: page.next_cursor, loaded: true };
  if (!page.items.length) return listing; // a search that has found nothing among the newest: what older ones gave stays
  const fresh = new Map(page.items.map((each) => [each.id, each]));
  if (!listing.items.some(({ id }) => fresh.has(id))) return { items: page.items, next: page.next_cursor, loaded: true };
  const lastSame = listing.items.findLastIndex(({ id, last_activity_at: at }) => fresh.get(id)?.last_activity_at === at);
  const rest = listing.items.filter(({ id }, index) => !fresh.has(id) && index > lastSame);
  return { items: [...page.items, ...rest], next: rest.length ? listing.next : page.next_cursor, loaded: true };
}

/** Return *listing* with *page* after it. */
export function extended(listing: Listing, page: Page<Session>): Listing {
  const known = new Set(listing.items.map(({ id }) => id));
  return { ...listing, items: [...listing.items, ...page.items.filter(({ id }) => !known.has(id))], next: page.next_cursor };
}

/** Return how many *page* has, in words that say whether there are more; empty for none. */
export function counted({ items, next_cursor: next }: Page<Session>): string {
  return items.length ? `${items.length}${next === null ? "" : "+"}` : "";
}

/** Return what stands in the place of a list without items; a search may have looked at the newest ones alone. */
export function emptyWords({ next }: Listing, { text, status }: Wanted): string {
  if (text) return next === null ? WORDS.noneFound : WORDS.noneYet;
  return status ? WORDS.noneSuch : WORDS.none;
}

/** Return whether a person would see a difference between the two. */
export function isSame(one: Listing, other: Listing): boolean {
  return one.loaded === other.loaded && JSON.stringify(one.items) === JSON.stringify(other.items);
}
