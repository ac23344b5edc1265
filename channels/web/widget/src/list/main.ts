/** The chunk of conversations: the list of them, links to them, and what is done with whole ones. */

import { adopt } from "../styles/adopt.js";
import { merged } from "../words/merge.js";
import { linkTo } from "./links.js";
import css from "./list.css";
import { openPanel, type PanelOptions } from "./panel.js";
import { LIST } from "./words.js";

export { openLinked } from "./links.js";
export { talks } from "./talks.js";

/** Open the list of conversations; with *links* it offers links to them. */
export function openList(options: Omit<PanelOptions, "link">, links: boolean): void {
  adopt(options.frame, css);
  openPanel({ ...options, link: links ? linkTo : undefined }, merged(LIST, options.strings.list));
}
