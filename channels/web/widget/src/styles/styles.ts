/** The widget's style sheets; what a page may set of them is in docs/widget-theme.md. */

import base from "./base.css";
import composer from "./composer.css";
import frame from "./frame.css";
import media from "./media.css";
import transcript from "./transcript.css";

/** What a widget needs before there is a conversation. */
const FIRST = [base, frame, transcript, composer, media];

/** Return a new sheet for a shadow root, with *more* after it: adopted, so that no policy against inline styles blocks it. */
export function styleSheet(...more: readonly string[]): CSSStyleSheet {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync([...FIRST, ...more].join(""));
  return sheet;
}
