// The figures of the wall of small charts. Pure.

import type { FigureData } from './api/shapes';
import type { Series } from './live/series';
import type { Column } from './live/tests.svelte';

const QUANTITIES: Record<Column, string> = { rate: 'bits_per_second', sent: 'bits_per_second', packets: 'packets_per_second', loss: 'ratio', jitter: 'seconds', delay: 'seconds', round_trip: 'seconds' };

/** A figure of a flow over time: each value is a level over its interval. */
export function wallFigure(id: string, name: string, label: string, column: Column, history: Series | undefined): FigureData {
  const axis = (words: string, quantity: string, from_zero: boolean) => ({ label: words, key: quantity, quantity, scale: 'linear', from_zero, categories: [] });
  const [x = [], x_end = [], y = []] = ['from', 'at', column].map((one) => history?.column(one));
  return {
    id,
    title: name,
    caption: '',
    x: axis('Time since the start', 'seconds', false),
    y: axis(label, QUANTITIES[column], true),
    series: x.length === 0 ? [] : [{ name, mark: 'step', heavy: false, x, x_end, y, low: [], high: [], host_limited: [] }],
    references: [],
    shades: [],
  };
}
