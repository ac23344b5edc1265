/** The arithmetic of charts: nice ticks, stacks, domains. Pure. */

export interface Scale {
  readonly low: number;
  readonly high: number;
  readonly ticks: readonly number[];
}

/** Return a scale from below *low* to above *high* with about *count* steps of 1, 2, 2.5 or 5 times a power of ten. */
export function nice(low: number, high: number, count: number): Scale {
  if (!(high > low)) [low, high] = low === 0 ? [0, 1] : [Math.min(0, low), Math.max(0, low)];
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 2.5, 5].find((each) => each * power >= rough * 0.999) ?? 10) * power;
  const [first, last] = [Math.floor(low / step + 1e-9), Math.ceil(high / step - 1e-9)];
  const ticks = Array.from({ length: last - first + 1 }, (_, at) => Number(((first + at) * step).toPrecision(12)));
  return { low: ticks[0] as number, high: ticks.at(-1) as number, ticks };
}

/** Return the span of each value when those of one category are put on top of one another, below zero the negative ones. */
export function stack(series: readonly (readonly (number | null)[])[]): readonly (readonly (readonly [number, number])[])[] {
  const [above, below]: [number[], number[]] = [[], []];
  return series.map((values) =>
    values.map((value, at): readonly [number, number] => {
      const ends = (value ?? 0) < 0 ? below : above;
      const from = ends[at] ?? 0;
      ends[at] = from + (value ?? 0);
      return [from, ends[at] as number];
    }),
  );
}

/** Return the lowest and highest of *values*, with zero where *fromZero* says so or it is near. */
export function extent(values: readonly number[], fromZero: boolean): readonly [number, number] {
  const [low, high] = values.reduce(([a, b], each) => [Math.min(a, each), Math.max(b, each)], [Infinity, -Infinity]);
  if (low > high) return [0, 1];
  const isFar = !fromZero && (low > 0 ? (high - low) / high < 0.35 : high < 0 && (high - low) / -low < 0.35);
  return isFar && high > low ? [low, high] : [Math.min(0, low), Math.max(0, high)];
}

/** Return the share of each of *values*, from 0 to 1; what is not above zero has none. */
export function shares(values: readonly (number | null)[]): readonly number[] {
  const whole = values.reduce<number>((sum, each) => sum + Math.max(0, each ?? 0), 0);
  return values.map((each) => (whole ? Math.max(0, each ?? 0) / whole : 0));
}
