/** Legible text: what people see of words from outside is what is there. `channels/legible.py` does the same elsewhere. */

const JOINED = /^[\p{L}\p{M}]$/u;
const NEEDS_JOINERS =
  /[\p{Script=Arabic}\p{Script=Syriac}\p{Script=Devanagari}\p{Script=Bengali}\p{Script=Gurmukhi}\p{Script=Gujarati}\p{Script=Oriya}\p{Script=Tamil}\p{Script=Telugu}\p{Script=Kannada}\p{Script=Malayalam}\p{Script=Sinhala}\p{Script=Myanmar}\p{Script=Khmer}]/u;
const PICTURE = /[\p{So}\p{Sm}\p{Sk}\p{Po}\p{Pd}]/u;
const HIDDEN =
  /[\p{C}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\u{1d159}\u{e0100}-\u{e01ef}]/u;
/** Spaces, signs and styled letters that pass for those of ASCII wherever they are. */
const ODD =
  /[\p{Zs}\u0251\u0261\u2044\u2215\u29f8\ua789\u2236\u2024\u01c3\u2010\u2011\u037e\u2100-\u214f\u2160-\u217f\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\u{1d400}-\u{1d7ff}]/u;
/** Signs of East Asian texts that pass for those of ASCII: beside a letter of such a script they are what they are. */
const WIDE = /[\u3002\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff5e\uff61]/;
const WORD = /[^\s!-/:-@[-^`{-~]+/gu;
const LETTER = /[\p{Lu}\p{Ll}\p{Lt}\p{Lo}]/u;
const SCRIPTS: readonly (readonly [string, RegExp])[] = [
  ["Latin", /\p{Script=Latin}/u],
  ["Cyrillic", /\p{Script=Cyrillic}/u],
  ["Greek", /\p{Script=Greek}/u],
  ["Armenian", /\p{Script=Armenian}/u],
  ["Cherokee", /\p{Script=Cherokee}/u],
  ["Coptic", /\p{Script=Coptic}/u],
];
/** The letters of UTS #39 (confusables) that pass for one of a to z or A to Z in common typefaces. */
const ALIKE = new Set(
  "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u04bb\u0501\u051b\u051d\u0475\u04cf\u04af\u0410\u0412" +
  "\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0405\u0406\u0408\u04ba\u051a\u051c\u0474\u04c0\u04ae" +
  "\u03b1\u03b9\u03ba\u03bd\u03bf\u03c1\u03c5\u03b3\u03c7\u03f2\u03f3\u03b7\u0391\u0392\u0395\u0396\u0397\u0399\u039a" +
  "\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03f9\u037f\u0585\u057d\u0578\u0570\u0581\u0566\u0575\u0584\u0555\u054f" +
  "\u053c\u054d\u13aa\u13f4\u13df\u13a0\u13ac\u13c0\u13bb\u13a5\u13ab\u13e6\u13de\u13b7\u13e2\u13a1\u13da\u13a2\u13d9" +
  "\u13b3\u13c3\u13a9\u2c9f\u2ca3\u2ca5\u2c9e\u2ca2\u2ca4\u2c94\u2c98\u2c9a\u2ca6\u2cac",
);
const ASCII = /^[\x20-\x7e\n\t]*$/;

interface Word {
  readonly start: number;
  readonly text: string;
  readonly scripts: ReadonlySet<string>;
  /** Whether all of its several letters look like Latin ones. */
  readonly alike: boolean;
  /** Whether its only letter looks like a Latin one. */
  readonly lone: boolean;
  /** Whether that letter is beside a digit. */
  readonly numeric: boolean;
}

/** Return *text* with what cannot be seen, and what passes for other letters, spaces and signs, written as its number. */
export function unmistakable(text: string): string {
  if (ASCII.test(text)) return text;
  const alike = new Set(suspects(text).flatMap(({ start, text: word }) => placesIn(word, start)));
  const signs = [...text];
  let at = 0;
  return signs
    .map((sign, index) => {
      const isOdd = isHidden(signs, index) || alike.has(at) || isOddSign(signs, index);
      at += sign.length;
      return isOdd ? `\\u{${(sign.codePointAt(0) ?? 0).toString(16)}}` : sign;
    })
    .join("");
}

/** Return the scripts that words of *text* mix, none of one that only looks Latin, null where there is no doubt. */
export function doubt(text: string): readonly string[] | null {
  if (ASCII.test(text)) return null;
  const words = wordsOf(text);
  const hasLatin = isLatinIn(words);
  const found = suspects(text).filter(({ scripts }) => hasLatin || scripts.size > 1);
  if (found.length) {
    const mixed = new Set(found.flatMap(({ scripts }) => [...scripts]));
    if (found.some(({ scripts }) => scripts.size === 1)) mixed.add("Latin");
    return SCRIPTS.map(([name]) => name).filter((name) => mixed.has(name));
  }
  return words.length && words.every(({ alike, numeric }) => alike || numeric) ? [] : null;
}

/**
 * Return the words that mix scripts, and those that look like Latin ones among such, or like digits. One letter alone is
 * one where all other words are Latin: in other texts it may be a word.
 */
function suspects(text: string): readonly Word[] {
  const words = wordsOf(text);
  const hasLatin = isLatinIn(words);
  const isLatin = hasLatin && words.every(({ scripts, lone }) => lone || (scripts.size === 1 && scripts.has("Latin")));
  return words.filter(
    ({ scripts, alike, lone, numeric }) => scripts.size > 1 || numeric || (hasLatin && alike) || (isLatin && lone),
  );
}

function isLatinIn(words: readonly Word[]): boolean {
  return words.some(({ scripts }) => scripts.has("Latin"));
}

function isOddSign(signs: readonly string[], at: number): boolean {
  const sign = signs[at] ?? "";
  if (sign <= "\x7e") return false;
  if (WIDE.test(sign)) return !/\p{Lo}/u.test(`${signs[at - 1] ?? ""}${signs[at + 1] ?? ""}`);
  return ODD.test(sign);
}

function wordsOf(text: string): readonly Word[] {
  return [...text.matchAll(WORD)].map((found) => wordAt(found.index, found[0])).filter(({ scripts }) => scripts.size > 0);
}

function wordAt(start: number, text: string): Word {
  const letters = [...text].filter((sign) => LETTER.test(sign));
  const scripts = new Set(letters.flatMap((sign) => SCRIPTS.filter(([, is]) => is.test(sign)).map(([name]) => name)));
  const alike = letters.every((sign) => ALIKE.has(sign));
  const lone = alike && letters.length === 1;
  const at = lone ? text.indexOf(letters[0] ?? "") : 0;
  const numeric = lone && /[0-9]/.test(text.slice(Math.max(at - 1, 0), at + 2));
  return { start, text, scripts, alike: alike && letters.length > 1, lone, numeric };
}

function placesIn(word: string, start: number): readonly number[] {
  let at = start;
  return [...word].flatMap((sign) => {
    const place = at;
    at += sign.length;
    return ALIKE.has(sign) ? [place] : [];
  });
}

function isHidden(signs: readonly string[], at: number): boolean {
  const sign = signs[at] ?? "";
  if (ASCII.test(sign)) return false;
  const before = signs[at - 1] ?? "";
  const after = signs[at + 1] ?? "";
  if (sign === "\u200c" || sign === "\u200d") return !isJoined(before, after);
  if (sign === "\ufe0e" || sign === "\ufe0f") return !(isPicture(before) || (after === "\u20e3" && /^[0-9#*]$/.test(before)));
  return HIDDEN.test(sign);
}

function isJoined(before: string, after: string): boolean {
  if (isPicture(after)) return isPicture(before) || before === "\ufe0f";
  return needsJoiners(before) && needsJoiners(after);
}

function isPicture(sign: string): boolean {
  return sign > "\x7e" && PICTURE.test(sign);
}

function needsJoiners(sign: string): boolean {
  return JOINED.test(sign) && NEEDS_JOINERS.test(sign);
}
