import { expect, it } from 'vitest';
import { Series } from '../../src/lib/live/series';
import { wallFigure } from '../../src/lib/wall';

it('a small chart has levels over the intervals of a flow, with gaps', () => {
  const history = new Series(['at', 'from', 'rate']);
  history.push([1, 0, 5]);
  history.push([2, 1, undefined]);
  const figure = wallFigure('a', 'voice', 'Throughput', 'rate', history);
  expect([figure.title, figure.y.quantity]).toEqual(['voice', 'bits_per_second']);
  expect(figure.series.map((one) => [one.x, one.x_end, one.y])).toEqual([[[0, 1], [1, 2], [5, null]]]);
  expect(wallFigure('a', 'voice', 'Delay', 'delay', undefined)).toMatchObject({ y: { quantity: 'seconds' }, series: [] });
});
