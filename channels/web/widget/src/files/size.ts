/** Sizes as people read them. */

const UNITS = ["byte", "kilobyte", "megabyte", "gigabyte"] as const;

/** Return *bytes* in the unit that suits it, as *locale* writes it: "1.4 MB". */
export function sizeOf(bytes: number, locale: string): string {
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3));
  const value = bytes / 1000 ** power;
  const digits = power > 1 && value < 10 ? 1 : 0;
  return new Intl.NumberFormat(locale, { style: "unit", unit: UNITS[power] as string, unitDisplay: power ? "short" : "long", maximumFractionDigits: digits }).format(value);
}
