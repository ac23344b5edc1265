/**
 * The script of `/widget/frame`, the page that sites embed as an iframe: one conversation on a whole page, whose attributes are the
 * body's data, and whose tokens come from the page around it.
 */

import type { ParleyChat } from "../embed/element.js";
import type { ParleyEventMap } from "../embed/events.js";
import { createBridge, type Bridge } from "./bridge.js";
import { framedCalls } from "./calls.js";
import css from "./iframe.css";

/** What the page around learns of each event: what is said stays in here. */
const REPORTED: { readonly [K in keyof ParleyEventMap]?: (detail: ParleyEventMap[K]["detail"]) => object } = {
  "parley:ready": () => ({}),
  "parley:open": () => ({}),
  "parley:close": () => ({}),
  "parley:message": ({ role, id }) => ({ role, ...(id !== undefined && { id }) }),
  "parley:tool": ({ call, run, status }) => ({ call, run, status }),
  "parley:approval": ({ approval, call, status }) => ({ approval, call, status }),
  "parley:feedback": ({ run, rating }) => ({ run, rating }),
  "parley:error": ({ code, status }) => ({ code, status }),
  "parley:unread": ({ count }) => ({ count }),
};

const listed = (document.querySelector<HTMLMetaElement>('meta[name="parley-ancestors"]')?.content ?? "").split(" ").filter(Boolean);
const sheet = new CSSStyleSheet();
sheet.replaceSync(css);
document.adoptedStyleSheets = [sheet];
if (window.parent === window) document.body.textContent = "This page is made to be embedded by another one.";
else begin();

function begin(): void {
  const chat = document.createElement("parley-chat") as ParleyChat;
  let held = "";
  const calls = framedCalls(chat, (message) => bridge.post(message));
  const bridge: Bridge = createBridge({
    page: window,
    listed,
    token(given) {
      if (held === (held = given.token)) return;
      chat.setToken(given.token);
    },
    wish: (wish) => chat[wish](),
    context(given) {
      try {
        chat.setContext(given);
      } catch (error) {
        console.error(error);
        bridge.post({ type: "parley:error", code: "context_too_long", status: 0 });
      }
    },
    tools: calls.take,
    output: calls.hand,
  });
  const { dataset } = document.body;
  for (const [name, value] of Object.entries(dataset)) if (value !== undefined) chat.setAttribute(name, value);
  if (!chat.locale) chat.locale = navigator.language;
  document.documentElement.lang = chat.locale ?? "";
  chat.storageKey = `parley:frame:${bridge.parent}:${chat.agent ?? ""}`; // browsers that keep sites apart need no name for it, others do
  chat.update = "reload";
  if (!chat.anonymous) {
    chat.getToken = async () => {
      const given = await bridge.getToken();
      held = given.token;
      return given;
    };
  }
  for (const [name, detail] of Object.entries(REPORTED)) {
    chat.addEventListener(name, (event) => bridge.post({ type: name, ...(detail as (given: unknown) => object)((event as CustomEvent<unknown>).detail) }));
  }
  document.body.replaceChildren(chat);
}
