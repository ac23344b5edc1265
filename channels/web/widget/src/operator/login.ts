/** The login: one field for an API key. */

import { h, setText } from "../dom.js";
import { asProblem } from "../wire/problem.js";
import { explain } from "../words/strings.js";
import { TALK, WORDS } from "./words.js";

/** Return the login; *enter* takes a key and throws the problem that it is not taken for, *said* is why a person is here again. */
export function createLogin(enter: (key: string) => Promise<void>, said: string, isSecure: boolean): { readonly node: HTMLElement; focus(): void } {
  const words = WORDS.login;
  const key = h("input", { type: "password", id: "key", autocomplete: "current-password", spellcheck: "false", autocapitalize: "off", required: true, maxlength: "500" });
  const status = h("p", { class: "wrong", role: "alert" }, said);
  const submit = h("button", { type: "submit", class: "choice yes" }, words.submit);
  const hint = h("p", { class: "note" }, words.hint, " ", h("code", {}, words.command), ".");
  const warning = isSecure ? null : h("p", { class: "note warning" }, words.insecure);
  const form = h("form", { class: "login", novalidate: true }, h("h1", {}, words.heading), h("label", { for: "key" }, words.key), key, submit, status, hint, warning);
  const busy = (isBusy: boolean): void => {
    submit.disabled = isBusy;
    setText(submit, isBusy ? words.busy : words.submit);
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = key.value.trim();
    if (!text || submit.disabled) return key.focus();
    busy(true);
    setText(status, "");
    enter(text).catch((error: unknown) => {
      const problem = asProblem(error);
      busy(false);
      setText(status, problem.status === 401 ? words.refused : explain(problem, TALK));
      key.select();
      key.focus();
    });
  });
  return { node: h("main", { class: "door" }, form), focus: () => key.focus() };
}
