/** What a card says of its question: for whom it waits and how long, and how it was decided. */

import { unmistakable } from "../legible.js";
import type { Person } from "../log/events.js";
import type { Approval } from "../log/state.js";
import type { CardWords } from "./words.js";

const [MINUTE, HOUR, DAY] = [60_000, 3_600_000, 86_400_000];

/** Return for whom the question waits; only an operator reads ids, for others those, and roles without a word, are the team. */
export function waiting({ responders, isForm }: Approval, words: CardWords, isOperator = false): string {
  const named = responders.map((each) => words.who[each] ?? (isOperator && each.includes(":") ? unmistakable(each.slice(each.indexOf(":") + 1)) : words.team));
  const who = [...new Set(named)].filter(Boolean).join(words.or) || words.team;
  return (isForm ? words.waitsForm : words.waits).replace("{who}", who);
}

/** Return how long there is left until *until*, in words; both times are in milliseconds, and numbers are written as in *locale*. */
export function timeLeft(until: number, now: number, words: CardWords, locale: string): string {
  const left = until - now;
  if (left < MINUTE) return words.soon;
  const [unit, length] = left >= 2 * DAY ? (["day", DAY] as const) : left >= 2 * HOUR ? (["hour", HOUR] as const) : (["minute", MINUTE] as const);
  const time = new Intl.NumberFormat(locale, { style: "unit", unit, unitDisplay: "long" }).format(Math.ceil(left / length));
  return words.left.replace("{time}", time);
}

/** Return after how many milliseconds `timeLeft` says something else. */
export function nextChange(until: number, now: number): number {
  const left = until - now;
  return left <= 0 ? Infinity : (left % MINUTE) + 1;
}

/** Return how the question was decided, by whom, when and why. */
export function outcome({ status, by, at, isForm, edited, reason }: Approval, words: CardWords, locale: string): string {
  if (status === "open") return "";
  const who = by ? ` ${words.by} ${nameOf(by, words)}` : "";
  const said = `${(isForm ? words.answered : words.status)[status]}${who}${at ? `, ${clock(at, locale)}` : ""}`;
  const more = [edited && !isForm && status === "approved" && words.edited, reason && unmistakable(reason)].filter(Boolean);
  return more.length ? `${said}. ${more.join(" ")}` : said;
}

/** Return the name to show for a person; a visitor without a name is the person at this page. */
function nameOf({ id, kind, name }: Person, words: CardWords): string {
  if (name) return unmistakable(name);
  if (id === "operator" || id === "someone") return id === "operator" ? words.team : words.someone; // as visitors see others
  return kind === "visitor" ? words.you : unmistakable(id);
}

/** Return *time* as *locale* writes it, with the day when that is another one. */
function clock(time: number, locale: string): string {
  const at = new Date(time);
  const isToday = at.toDateString() === new Date().toDateString();
  return isToday ? at.toLocaleTimeString(locale, { timeStyle: "short" }) : at.toLocaleString(locale, { dateStyle: "medium", timeStyle: "short" });
}
