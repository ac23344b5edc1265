import assert from "node:assert/strict";
import { test } from "node:test";
import { ANSWERS } from "../src/answers/words.js";
import { CARDS } from "../src/cards/words.js";
import { CODE } from "../src/code/words.js";
import { DRAWN } from "../src/drawn/words.js";
import { timeLeft } from "../src/cards/said.js";
import { tagOf } from "../src/extras/language.js";
import { complete, EXTRAS, PROBLEMS } from "../src/extras/words.js";
import { FILES } from "../src/files/words.js";
import { words as ar } from "../src/languages/ar.js";
import { words as de } from "../src/languages/de.js";
import { words as es } from "../src/languages/es.js";
import { words as fr } from "../src/languages/fr.js";
import { words as ja } from "../src/languages/ja.js";
import { words as pt } from "../src/languages/pt.js";
import { LAUNCHER } from "../src/launcher/words.js";
import { LIST } from "../src/list/words.js";
import type { Call } from "../src/log/state.js";
import { lineOf } from "../src/tools/sentence.js";
import { TOOLS, whole } from "../src/tools/words.js";
import { merged } from "../src/words/merge.js";
import { wordsFor } from "../src/words/language.js";
import { plural } from "../src/words/plural.js";
import { explain, STRINGS } from "../src/words/strings.js";
import type { Problem } from "../src/wire/problem.js";

const { locale: _, ...PLAIN } = STRINGS;
const ENGLISH = { ...PLAIN, problems: { ...STRINGS.problems, ...PROBLEMS }, answers: ANSWERS, approval: CARDS, code: CODE, drawn: DRAWN, extras: EXTRAS, files: FILES, launcher: LAUNCHER, list: LIST, tools: TOOLS };

/** Return every word of *tree* by its path. */
function flat(tree: object, path = ""): Map<string, unknown> {
  return new Map(Object.entries(tree).flatMap(([key, value]) => (typeof value === "object" && value !== null ? [...flat(value, `${path}${key}.`)] : [[`${path}${key}`, value] as const])));
}
const places = (text: unknown): readonly string[] => [...new Set(String(text).match(/\{\w+\}/g) ?? [])].sort();

/** Words that are the same in a language as in English: names of formats, signs of units, and words that both languages have. */
const UNITS = ["answers.sizes.byte", "answers.sizes.kilobyte", "answers.sizes.megabyte", "answers.sizes.gigabyte", "tools.seconds"];
const ALIKE: Readonly<Record<string, readonly string[]>> = {
  all: ["drawn.csv", "drawn.png"],
  ar: [],
  de: [...UNITS, "tools.counted"],
  es: [...UNITS, "approval.no", "drawn.no", "tools.no"],
  fr: ["tools.seconds", "heading", "assistant", "transcript", "answers.sources", "answers.source", "answers.suggestions", "list.untitled", "extras.prompts"],
  ja: UNITS.slice(0, 4),
  pt: UNITS,
};

for (const [tag, words] of Object.entries({ ar, de, es, fr, ja, pt })) {
  test(`${tag} has every word, in its own language, with the same places to fill`, () => {
    const [known, said] = [flat(ENGLISH), flat(words)];
    assert.deepEqual([...known.keys()].filter((key) => !said.has(key)), [], "not translated");
    assert.deepEqual([...said.keys()].filter((key) => !known.has(key)), [], "unknown words");
    for (const [key, text] of said) {
      assert.equal(typeof text, "string", key);
      assert.notEqual(String(text).trim(), "", key);
      for (const form of String(text).split("|")) assert.notEqual(form.trim(), "", key);
      assert.deepEqual(places(text), places(known.get(key)), key);
      assert.doesNotMatch(String(text), /\.\.\.|['"]| {2}|\{\W|\w\}\}/, key); // … and ’ as they are printed
    }
    const same = [...said].filter(([key, text]) => text === known.get(key)).map(([key]) => key);
    assert.deepEqual(same.sort(), [...(ALIKE["all"] ?? []), ...(ALIKE[tag] ?? [])].sort(), "the same as in English");
    assert.equal(words.dir, tag === "ar" ? "rtl" : "ltr");
  });
}

test("a sign that French sets off never begins a line", () => {
  for (const [key, text] of flat(fr)) assert.doesNotMatch(String(text), /[^\u202f][?!;]|[^\u00a0]:/, key);
});

test("what is left of a time, and how many calls failed, is said in the widget's language, not in the browser's", () => {
  const left = (words: typeof de, minutes: number, locale: string): string => timeLeft(minutes * 60_000, 0, words.approval, locale);
  assert.deepEqual([left(de, 1, "de"), left(fr, 5, "fr"), left(ja, 3, "ja")], ["Noch 1 Minute Zeit für die Entscheidung", "Il reste 5 minutes pour décider", "期限まであと3 分"]);
  assert.deepEqual([2, 5].map((minutes) => left(ar, minutes, "ar-u-nu-latn")), ["الوقت المتبقي للقرار: دقيقتان", "الوقت المتبقي للقرار: 5 دقائق"]);
  const call = { status: "failed", name: "find" } as Call;
  const said = (words: object): readonly unknown[] => lineOf([call, call], whole(merged(STRINGS, words))).more;
  assert.deepEqual([{}, de, fr, ja].map(said), [["2 failed"], ["2 fehlgeschlagen"], ["échec\u00a0: 2"], ["失敗：2件"]]);
});

test("a number of things has the form of its language, and the number as it is written there", () => {
  assert.deepEqual([0, 1, 2].map((count) => plural(DRAWN.shown, count, "en")), ["0 rows", "1 row", "2 rows"]);
  assert.deepEqual([1, 1234].map((count) => plural(de.drawn.shown, count, "de")), ["1 Zeile", "1.234 Zeilen"]);
  assert.deepEqual([1, 2, 5, 20, 100].map((count) => plural(ar.drawn.shown, count, "ar-u-nu-latn")), ["صف واحد", "صفان", "5 صفوف", "20 صفًا", "100 صف"]);
  assert.equal(plural("{count}行", 3, "ja"), "3行");
});

test("a page's language is the one of the reader's browser where that is a kind of it", () => {
  assert.deepEqual([tagOf("de", ["en-US", "de-AT"]), tagOf("de-CH", ["de-AT"]), tagOf("pt", []), tagOf("no language!", [])], ["de-AT", "de-CH", "pt", "en"]);
});

/** Every code that a visitor's request may come to, of the API's contract and beyond. */
const CODES = [
  "invalid_json", "invalid_request", "unauthorized", "not_found", "session_busy", "session_closed", "already_decided", "managed_by_file", "session_open",
  "not_an_approver", "forbidden", "too_large", "rate_limited", "unknown_cursor", "idempotency_mismatch", "conflict", "unavailable", "internal_error", "network", "token",
];
const asked = (code: string, status = 400, retryAfter: number | null = null): Problem => Object.assign(new Error("Server text."), { code, status, retryAfter, errors: [] });

test("every code has a sentence, in every language; the server's own is the last resort", () => {
  complete(STRINGS.problems as Record<string, string>);
  for (const words of [{}, ar, de, es, fr, ja, pt]) {
    const strings = merged(STRINGS, words as object);
    complete(strings.problems as Record<string, string>);
    for (const code of CODES) assert.doesNotMatch(explain(asked(code), strings), /Server text|undefined|\{/, code);
    for (const code of ["doom_loop", "depth_limit", "provider_error", "context_overflow", "approval_expired", "lost"]) assert.ok(strings.failed[code], code);
  }
  assert.deepEqual([explain(asked("brand_new", 409), STRINGS), explain(asked("brand_new", 502), STRINGS)], ["Server text.", "The service is not available right now. Try again in a moment."]);
});

test("a person who sent too much reads when to try again, as the language says it", () => {
  const strings = merged(STRINGS, { ...de, locale: "de" } as object);
  const said = (seconds: number | null, words = STRINGS): string => explain(asked("rate_limited", 429, seconds), words);
  assert.deepEqual([said(20), said(600), said(null)], ["Too many messages. Try again in 20 seconds.", "Too many messages. Try again in 10 minutes.", "Too many messages. Try again in a moment."]);
  assert.equal(said(20, strings), "Zu viele Nachrichten. Versuchen Sie es in 20 Sekunden noch einmal.");
});

test("some words replace some, at any depth, and what is no text changes nothing", () => {
  const odd = { send: "Go", tool: { done: "ready", failed: 7 }, ended: "no tree", failed: null, problems: { network: ["x"], mine: "own" }, stop: undefined, heading: { a: "b" } };
  const strings = merged(STRINGS, odd as object);
  assert.deepEqual([strings.send, strings.tool.done, strings.tool.failed, strings.tool.running], ["Go", "ready", "failed", "running"]);
  assert.deepEqual([strings.ended, strings.failed, strings.stop, strings.heading], [STRINGS.ended, STRINGS.failed, STRINGS.stop, STRINGS.heading]);
  assert.deepEqual([strings.problems["network"], strings.problems["mine"]], [STRINGS.problems["network"], "own"]);
  for (const [key, text] of flat(strings)) assert.equal(typeof text, "string", key);
});

test("a locale that is no language does not stop the widget: the browser's is used, also where the page itself says it", () => {
  const host = { getAttribute: () => null, closest: () => null } as unknown as Element;
  const browsers = new Intl.DateTimeFormat().resolvedOptions().locale;
  for (const [given, used] of [["de-CH", "de-CH"], ["no language!", browsers], ["", browsers], ["en_US", browsers]] as const) {
    assert.equal((wordsFor(host, { locale: given }) as typeof STRINGS).locale, used, given);
  }
  const lang = { getAttribute: () => "en-", closest: () => null } as unknown as Element;
  assert.equal((wordsFor(lang, undefined) as typeof STRINGS).locale, browsers);
});
