// Figures of live values. Pure.

import type { Series as History } from '../live/series';
import type { Figure, Series } from './plot/figure';

/** An axis from zero; `quantity` as in the figures of the server. */
export const axis = (label: string, quantity: string, more: Partial<Figure['x']> = {}): Figure['x'] => ({ label, key: quantity, quantity, scale: 'linear', from_zero: true, categories: [], ...more });

/** A series without intervals. */
export const series = (name: string, mark: string, values: Pick<Series, 'x' | 'y'> & Partial<Series>): Series => ({ name, mark, heavy: false, x_end: [], low: [], high: [], host_limited: [], ...values });

/** Values of intervals over time: a value is a level from the start of its interval to its end. */
export const overTime = (id: string, title: string, y: Figure['y'], lines: Series[]): Figure => ({ id, title, caption: '', x: axis('Time since the start', 'seconds', { from_zero: false }), y, series: lines, references: [], shades: [] });

/** A column of the history of a flow or a total. */
export const history = (name: string, of: History, column: string, more: Partial<Series> = {}): Series => series(name, 'step', { x: of.column('from'), x_end: of.column('at'), y: of.column(column), ...more });
