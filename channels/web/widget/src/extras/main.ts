/** What the frame gets after its first paint: the start screen, announcements for readers of the screen, word of a newer version. */

import type { Conversation } from "../talk/conversation.js";
import { adopt } from "../styles/adopt.js";
import { ANSWERS } from "../styles/answers.js";
import { merged } from "../words/merge.js";
import type { Strings } from "../words/strings.js";
import { createAnnouncer } from "./announcer.js";
import css from "./extras.css";
import { createStart } from "./start.js";
import { createUpdate } from "./update.js";
import { complete, EXTRAS } from "./words.js";

export { translated } from "./language.js";

export interface ExtrasOptions {
  readonly strings: Strings;
  /** The whole widget, and its parts. */
  readonly node: HTMLElement;
  readonly heading: HTMLElement;
  readonly list: HTMLElement;
  readonly greeting: HTMLElement;
  readonly greetingText: HTMLElement;
  /** The version of the script. */
  readonly build: string;
  send(text: string): void;
  /** Whether a person has written something that is not sent. */
  isTyped(): boolean;
  readonly signal: AbortSignal;
}

export interface Extras {
  update(conversation: Conversation): void;
  /** Show the agent's picture, where it has one, in *place* beside an answer, and keep it up to date. */
  dress(place: HTMLElement): void;
}

/** Return what keeps the extras of *options.frame* up to date. */
export function extras(options: ExtrasOptions): Extras {
  const words = merged(EXTRAS, options.strings.extras);
  complete(options.strings.problems as Record<string, string>);
  let styled = false;
  const announcer = createAnnouncer(options, words);
  const start = createStart(options, words);
  const update = createUpdate(options, words, announcer.say);
  return {
    dress: start.dress,
    update(conversation) {
      styled ||= adopt(options.node, ANSWERS + css); // a launcher has the widget in its panel later
      announcer.update(conversation);
      start.show(conversation.agent);
      update(conversation);
    },
  };
}
