/** Words for a number of things: a text may have several forms, separated by "|". */

const ORDER = ["zero", "one", "two", "few", "many", "other"] as const;

/**
 * Return the form of *text* for *count*, with the number as *locale* writes it in place of `{count}`.
 *
 * The forms are in the order zero, one, two, few, many, other, those that the language has (CLDR): English has one and other, Japanese
 * only other. The last form stands for all that are missing.
 */
export function plural(text: string, count: number, locale?: string): string {
  const forms = text.split("|");
  const rules = new Intl.PluralRules(locale);
  const has = rules.resolvedOptions().pluralCategories as readonly string[];
  const chosen = ORDER.filter((each) => has.includes(each)).indexOf(rules.select(count));
  return (forms[chosen] ?? forms[forms.length - 1] ?? "").replace("{count}", new Intl.NumberFormat(locale).format(count));
}
