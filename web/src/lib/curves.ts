// Figures of a flow: over time, from its histories in both directions, and of a preview's delays. Pure.

import type { FigureData, Preview } from './api/shapes';
import type { FlowReport } from './history';
import type { Series } from './live/series';

type Asked = FlowReport['asked_figures'];
type Curve = 'loss' | 'rate' | 'delay';

const CURVES: { id: Curve; title: string; key: string; quantity: string; caption: string; asked: (asked: Asked) => number | null | undefined }[] = [
  { id: 'loss', title: 'Loss', key: 'loss_ratio', quantity: 'ratio', caption: 'Lost by law, of the packets that arrived in the interval', asked: (asked) => asked.loss_ratio },
  { id: 'rate', title: 'Rate', key: 'sent_bits_per_second', quantity: 'bits_per_second', caption: 'Leaves, by interval', asked: (asked) => asked.bits_per_second },
  { id: 'delay', title: 'Delay', key: 'delay_mean_seconds', quantity: 'seconds', caption: 'Mean of the packets that left in the interval', asked: (asked) => asked.delay_mean_seconds },
];

export interface Side {
  /** Name of the direction. */
  name: string;
  history: Series | undefined;
  asked: Asked | undefined;
}

/** A history as a series of steps. Intervals that follow each other share the time between them. */
function stepsOf({ name, history }: Side, curve: Curve): FigureData['series'][number] {
  const ends = (history?.column('at') ?? []) as number[];
  const starts = history?.column('start') ?? [];
  // Starts are stored in single precision.
  const x = ends.map((end, index) => {
    const [start, last] = [starts[index] ?? end, ends[index - 1]];
    return last !== undefined && Math.abs(last - start) < (end - last) / 2 ? last : start;
  });
  return { name, mark: 'step', heavy: false, x, x_end: ends, y: history?.column(curve) ?? [], low: [], high: [], host_limited: [] };
}

/** Loss, rate and delay of a flow over time, with what is asked for as dashed lines. */
export function curvesOf(sides: readonly Side[]): FigureData[] {
  return CURVES.map((curve) => {
    const asked = sides.flatMap((side) => {
      const at = side.asked === undefined ? undefined : curve.asked(side.asked);
      return typeof at === 'number' ? [{ name: `asked, ${side.name}`, place: 'horizontal', at }] : [];
    });
    const [first, second] = asked;
    return {
      id: `live-${curve.id}`,
      title: curve.title,
      caption: curve.caption,
      x: { categories: [], label: 'Time', key: 'time_seconds', quantity: 'seconds', scale: 'linear', from_zero: false },
      y: { categories: [], label: curve.title, key: curve.key, quantity: curve.quantity, scale: 'linear', from_zero: true },
      references: first !== undefined && second?.at === first.at ? [{ ...first, name: 'asked' }] : asked,
      shades: [],
      series: sides.map((side) => stepsOf(side, curve.id)),
    };
  });
}

type Delays = NonNullable<Preview['delay']>;

/** The delays of a preview, with those of the law alone unless they are the same; absent without a delay or if all are the same. */
export function delayFigure({ delay, asked_delay }: Pick<Preview, 'delay' | 'asked_delay'>, shape: 'histogram' | 'cdf'): FigureData | undefined {
  if (!delay || delay.max_seconds - delay.min_seconds < 1e-7) return undefined;
  const bins = shape === 'histogram';
  const seriesOf = (name: string, mark: string, of: Delays): FigureData['series'][number] => {
    const edges = of.histogram_edges_seconds;
    const values = bins ? { x: edges.slice(0, -1), x_end: edges.slice(1), y: of.histogram_packets } : { x: of.cdf_seconds, x_end: [], y: of.cdf_ratio };
    return { name, mark, heavy: false, low: [], high: [], host_limited: [], ...values };
  };
  const isSame = !asked_delay || asked_delay.histogram_packets.every((count, index) => count === delay.histogram_packets[index]);
  const asked = asked_delay && !isSame ? [seriesOf('asked', bins ? 'step' : 'line', asked_delay)] : [];
  return {
    id: `preview-${shape}`,
    title: bins ? 'Histogram of delay' : 'Cumulative distribution of delay',
    caption: asked.length > 0 ? 'asked: by the delay law alone' : '',
    x: { categories: [], label: 'Delay', key: 'delay_seconds', quantity: 'seconds', scale: 'linear', from_zero: false },
    y: bins ? { categories: [], label: 'Packets', key: 'packets', quantity: 'count', scale: 'linear', from_zero: true } : { categories: [], label: 'At most', key: 'ratio', quantity: 'ratio', scale: 'linear', from_zero: true },
    references: [],
    shades: [],
    series: [seriesOf('outcome', bins ? 'bars' : 'line', delay), ...asked],
  };
}
