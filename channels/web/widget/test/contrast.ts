/** Contrast as WCAG 2 measures it. */

const linear = (value: number): number => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
const light = (hex: string): number => [1, 3, 5].reduce((sum, at, index) => sum + linear(parseInt(hex.slice(at, at + 2), 16) / 255) * ([0.2126, 0.7152, 0.0722][index] as number), 0);

/** Return the contrast of two colours, `#rrggbb`: 1 to 21. */
export function contrast(one: string, other: string): number {
  const [dark, bright] = [light(one), light(other)].sort((a, b) => a - b) as [number, number];
  return (bright + 0.05) / (dark + 0.05);
}
