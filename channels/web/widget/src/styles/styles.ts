/** The widget's style sheet; its documented custom properties are at the top of `base.css`. */

import base from "./base.css";
import blocks from "./blocks.css";
import composer from "./composer.css";
import frame from "./frame.css";
import media from "./media.css";
import text from "./text.css";
import tools from "./tools.css";
import transcript from "./transcript.css";

const SHEETS = [base, frame, transcript, text, tools, blocks, composer, media];

/** Return a new sheet for a shadow root: adopted, so that no policy against inline styles blocks it. */
export function styleSheet(): CSSStyleSheet {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(SHEETS.join(""));
  return sheet;
}
