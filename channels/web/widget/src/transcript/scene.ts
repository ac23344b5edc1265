/** What the nodes of the transcript are drawn with, and how one of them is brought up to date. */

import { h } from "../dom.js";
import type { Chunks, Load } from "../lazy.js";
import type { Decide } from "../talk/deciding.js";
import type { Rating } from "../talk/feedback.js";
import type { Request } from "../wire/client.js";
import type { Strings } from "../words/strings.js";

export interface Scene {
  readonly strings: Strings;
  readonly request: Request;
  readonly load: Load;
  readonly decide: Decide;
  /** Show the agent's picture in *place*, where it has one. */
  readonly dress?: (place: HTMLElement) => void;
  /** Missing on a page of someone else's conversation. */
  readonly offers?: Offers;
}

/** What people can do with what was said in their own conversation. */
export interface Offers {
  send(text: string): void;
  feedback(run: string, rating: Rating, comment?: string): void;
  /** Answer the person's *message* once more. */
  regenerate?(message: string): unknown;
  /** Send *text* in place of the person's *message*. */
  edit?(message: string, text: string): Promise<boolean>;
  /** Go on to where the next message is written. */
  focus(): void;
}

/** A node that can be brought up to date. */
export interface Shown<T> {
  readonly node: HTMLElement;
  update(value: T): void;
}

/**
 * Return a function that shows a value by what *make* takes of the chunk `answers`.
 *
 * The first value loads the chunk; the last one before it is there is shown then.
 */
export function extra<T>({ load }: Scene, make: (chunk: Chunks["answers"], markdown: Chunks["markdown"]) => (value: T) => void): (value: T) => void {
  let last: T;
  let show = (value: T): void => {
    last = value;
    show = (next) => (last = next);
    Promise.all([load("answers"), load("markdown")]).then((chunks) => (show = make(...chunks))(last)).catch(() => undefined); // what was said is there without
  };
  return (value) => show(value);
}

/** Return a quiet button whose click the frame handles by its data *attribute*, see `frame/verbs.ts`. */
export function quiet(label: string, attribute: string, value: string): HTMLElement {
  return h("button", { type: "button", class: "quiet", [attribute]: value }, label);
}

/** Return *text* for assistive technology alone. */
export function hidden(text: string): HTMLElement {
  return h("span", { class: "hidden" }, text);
}
