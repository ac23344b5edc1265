/** What a person reads in a scrolled list: the blocks at its upper edge, and how far they were moved. */

/** A block, and its distance from the start of the list. */
export type Place = readonly [block: Element, from: number];

/**
 * Return the blocks at the upper edge of *list*, the innermost first, then the entry that holds it, and the next one: an entry may be
 * replaced, as when a message that was being sent has arrived.
 */
export function readIn(list: HTMLElement): readonly Place[] {
  const { top: edge } = list.getBoundingClientRect();
  const places: Place[] = [];
  const entry = firstBelow(list.getElementsByClassName("entry"), edge);
  const placed = (block: Element): Place => [block, block.getBoundingClientRect().top - edge + list.scrollTop];
  let block = entry;
  while (block) {
    const place = placed(block);
    places.unshift(place);
    block = place[1] < list.scrollTop ? [...block.children].find((child) => isBelow(child, edge)) : undefined;
  }
  if (entry?.nextElementSibling) places.push(placed(entry.nextElementSibling));
  return places;
}

/** Return by how many pixels what was read was moved down in *list*; null if it is no longer there. */
export function moved(places: readonly Place[], list: HTMLElement): number | null {
  const place = places.find(([block]) => list.contains(block) && block.getClientRects().length);
  if (!place) return null;
  const [block, from] = place;
  return Math.round(block.getBoundingClientRect().top - list.getBoundingClientRect().top + list.scrollTop - from);
}

/** Return the first of *entries*, which lie one below the other, that ends below *edge*. */
function firstBelow(entries: HTMLCollectionOf<Element>, edge: number): Element | undefined {
  let [low, high] = [0, entries.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isBelow(entries[middle] as Element, edge)) high = middle;
    else low = middle + 1;
  }
  return entries[low];
}

function isBelow(block: Element, edge: number): boolean {
  const { bottom, height } = block.getBoundingClientRect();
  return height > 0 && bottom > edge;
}
