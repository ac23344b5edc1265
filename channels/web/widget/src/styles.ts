/** The widget's style sheet; its documented custom properties are at the top of `styles.css`. */

import css from "./styles.css";

/** Return a new sheet for a shadow root: adopted, so that no policy against inline styles blocks it. */
export function styleSheet(): CSSStyleSheet {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(css);
  return sheet;
}
