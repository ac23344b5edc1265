/**
 * The widget in one line of a site: `<script src="…/widget/parley-loader.js" data-agent="…" data-token-url="…" defer></script>`.
 *
 * A module cannot find its own element, so this is a script of the older kind. It adds a launcher with its own attributes, and imports
 * the widget from beside itself: the very one that it was built with, so that an `integrity` on this line covers all.
 */

import { OBSERVED } from "../embed/attributes.js";
import { verified } from "../verified.js";

/** The SHA-256 of `parley-chat.js`, as base64: the build writes it in. */
declare const CHAT: string;

const script = document.currentScript as HTMLScriptElement | null;
if (script) {
  const chat = document.createElement("parley-chat");
  for (const name of [...OBSERVED, "dir", "id"]) {
    const value = script.getAttribute(`data-${name}`);
    if (value !== null) chat.setAttribute(name, value);
  }
  chat.setAttribute("server", script.getAttribute("data-server") ?? script.src.replace(/\/widget\/.*$/, ""));
  chat.setAttribute("launcher", "");
  if (document.body) document.body.append(chat);
  else document.addEventListener("DOMContentLoaded", () => document.body.append(chat));
  verified("parley-chat.js", CHAT, script.src).catch((error: unknown) => console.error(error));
}
