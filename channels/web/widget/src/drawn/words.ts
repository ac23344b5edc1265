/** The words of tables and charts; a page replaces any of them by `strings.drawn`. */

export const DRAWN = {
  table: "Table",
  chart: "Chart",
  kinds: { bar: "Bar chart", line: "Line chart", area: "Area chart", pie: "Pie chart", scatter: "Scatter chart" },
  copy: "Copy",
  copied: "Copied",
  csv: "CSV",
  png: "PNG",
  saveCsv: "Download as CSV",
  savePng: "Download as PNG",
  data: "Show data",
  noData: "Hide data",
  all: "Show the one row|Show all {count} rows",
  further: "Show {count} more row|Show {count} more rows",
  ascending: "Sorted by {column}, ascending",
  descending: "Sorted by {column}, descending",
  unsorted: "In the original order",
  shown: "{count} row|{count} rows",
  empty: "No data",
  yes: "yes",
  no: "no",
  category: "Category",
  series: "Series",
  keys: "Arrow keys read the values",
  range: "{name}: {low} to {high}",
  legend: "Series shown",
  drawing: "Drawing the chart…",
  failed: "The chart could not be drawn. This is what it shows:",
  retry: "Try again",
  unsaved: "That did not work in this browser",
};

/** With how numbers and dates are written: as the widget does. */
export type DrawnStrings = typeof DRAWN & { readonly locale?: string | undefined };

/** Return *pattern* with its places filled. */
export function fill(pattern: string, places: Readonly<Record<string, string>>): string {
  return pattern.replace(/\{(\w+)\}/g, (whole, name: string) => places[name] ?? whole);
}
