/** The package `parley-widget`: registers `<parley-chat>`, and gives its types. Browsers only; `./react.js` can be imported on servers. */

export { ParleyChat } from "../embed/define.js";
export type { Command, Commands } from "../embed/commands.js";
export type * from "../embed/events.js";
export type { GetToken, IssuedToken } from "../wire/token.js";
export type { Strings } from "../words/strings.js";
export type { Changes } from "../words/merge.js";
