// Width of text in the charts' font.

const MOST = 4000;
const known = new Map<string, number>();
let context: CanvasRenderingContext2D | null | undefined;

/** Width of a text of 11 pixels, in CSS pixels. */
export function measured(text: string): number {
  const before = known.get(text);
  if (before !== undefined) return before;
  if (context === undefined) {
    context = document.createElement('canvas').getContext('2d');
    if (context !== null) context.font = `11px ${getComputedStyle(document.documentElement).getPropertyValue('--sans')}`;
  }
  const width = context?.measureText(text).width ?? 0;
  if (known.size >= MOST) known.clear();
  known.set(text, width);
  return width;
}
