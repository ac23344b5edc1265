/** The chunk for developers: what is wrong with the page that the widget is in, on the console and, on their own machine, in the page. */

import { h, icon } from "../dom.js";
import { adopt } from "../styles/adopt.js";
import { diagnose, type Finding, type Setup } from "./diagnose.js";
import css from "./notice.css";

const CROSS = "M6 6l12 12M18 6L6 18";

/** Look for what is wrong with *setup*, and report it; the page itself shows it only when it is *shown*. */
export async function report(host: HTMLElement, setup: Omit<Setup, "blocked">, shown: boolean): Promise<Finding | null> {
  let blocked = false;
  const noted = (): void => void (blocked = true);
  document.addEventListener("securitypolicyviolation", noted);
  const found = await diagnose({ ...setup, blocked: () => blocked }).finally(() => document.removeEventListener("securitypolicyviolation", noted));
  if (!found || setup.signal.aborted) return null;
  console.warn(`parley-chat: ${found.fault}\n${found.remedy} [${found.code}]`);
  if (shown) draw(host, found);
  return found;
}

function draw(host: HTMLElement, { code, fault, remedy }: Finding): void {
  const root = host.shadowRoot as ShadowRoot;
  root.querySelector(".notice")?.remove();
  const cross = h("button", { type: "button", "aria-label": "Dismiss" }, icon(CROSS));
  const note = h("aside", { class: "notice", role: "note", "aria-label": "For the developer of this page", "data-code": code },
    h("strong", {}, fault), h("span", {}, remedy), h("small", {}, "Parley says this to the developer of the page: on this machine, and with the attribute debug."), cross);
  cross.addEventListener("click", () => note.remove());
  root.append(note);
  adopt(note, css);
}
