/** What the frame gets after its first paint: the start screen, announcements for readers of the screen, word of a newer version. */

import type { Conversation } from "../talk/conversation.js";
import type { StartPrompt } from "../talk/face.js";
import { adopt } from "../styles/adopt.js";
import { merged } from "../words/merge.js";
import type { Strings } from "../words/strings.js";
import { createAnnouncer } from "./announcer.js";
import css from "./extras.css";
import { createStart } from "./start.js";
import { createUpdate } from "./update.js";
import { EXTRAS } from "./words.js";

export interface ExtrasOptions {
  readonly strings: Strings;
  /** The whole widget. */
  readonly frame: HTMLElement;
  readonly list: HTMLElement;
  readonly greeting: HTMLElement;
  /** The version of the script; null where the page has chosen one for good. */
  readonly build: string | null;
  send(text: string): void;
  /** Whether a person has written something that is not sent. */
  isTyped(): boolean;
  readonly signal: AbortSignal;
}

export interface Extras {
  update(conversation: Conversation): void;
  /** Name the agent, and offer a page's own *prompts* in place of the agent's. */
  label(heading: string, prompts: readonly StartPrompt[] | null): void;
}

/** Return what keeps the extras of *options.frame* up to date. */
export function extras(options: ExtrasOptions): Extras {
  const words = merged(EXTRAS, options.strings.extras);
  adopt(options.frame, css);
  const announcer = createAnnouncer(options, words);
  const start = createStart(options, words);
  const update = createUpdate(options, words, announcer.say);
  return {
    update(conversation) {
      announcer.update(conversation);
      start.update(conversation.agent);
      update(conversation);
    },
    label: start.label,
  };
}
