// Reduces the points of a line without changing the picture: only the lowest and the highest in each pixel column remain.

/** A position in a drawing. */
export type Spot = readonly [x: number, y: number];

/** The lowest and the highest spot of each column of `width`, in their order, and the first and last of all. `spots` ascend in x. */
export function byColumn(spots: readonly Spot[], width: number): readonly Spot[] {
  // Too short to reduce.
  if (spots.length < 3) return spots;
  const out: Spot[] = [];
  const spot = (index: number) => spots[index] as Spot;
  const column = (index: number) => Math.floor(spot(index)[0] / width);
  let start = 0;
  while (start < spots.length) {
    const here = column(start);
    let end = start + 1;
    let [low, high] = [start, start];
    for (; end < spots.length && column(end) === here; end += 1) {
      if (spot(end)[1] < spot(low)[1]) low = end;
      if (spot(end)[1] > spot(high)[1]) high = end;
    }
    const isLast = end === spots.length;
    if (end - start <= 2) for (let index = start; index < end; index += 1) out.push(spot(index));
    else {
      const [first, second] = [Math.min(low, high), Math.max(low, high)];
      if (start === 0 && first !== 0) out.push(spot(0));
      out.push(spot(first));
      if (second !== first && !(isLast && second === end - 1)) out.push(spot(second));
      const [x, y] = spot(end - 1);
      if (isLast && (out.at(-1)?.[0] !== x || out.at(-1)?.[1] !== y)) out.push(spot(end - 1));
    }
    start = end;
  }
  return out;
}
