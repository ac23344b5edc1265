/** The chunk of questions: what a person is asked about a call, loaded when the first is to be shown. */

import { adopt } from "../styles/adopt.js";
import type { Decide } from "../talk/deciding.js";
import type { Approval } from "../log/state.js";
import type { Strings } from "../words/strings.js";
import { cardNode, type Card } from "./card.js";
import css from "./cards.css";
import { confirmStop } from "./onward.js";
import { whole } from "./words.js";

/** Return the card of *first*, shown in the root of *host*; *decide* takes what the person says; only an operator reads ids and names of tools. */
export function card(host: HTMLElement, first: Approval, decide: Decide, strings: Strings, isOperator: boolean): Card {
  adopt(host, css);
  return cardNode(first, decide, whole(strings), isOperator);
}

/** Ask in the place of *composer* whether to withdraw an open question; *stop* does it. */
export function confirm(composer: HTMLElement, strings: Strings, stop: () => void): void {
  adopt(composer, css);
  confirmStop(composer, whole(strings), stop);
}
