// The cells of the emulator's matrix: what a stage of a flow asks for, and what is measured.

import type { Board, Pace, Way } from './emulator.svelte';
import { ABSENT, bitRate, type Figure, percent, seconds, text } from './format';
import type { FlowReport } from './history';
import { type JsonObject, same } from './schema/model';
import { pick, type Stage, wordsOf } from './stages';

export interface Cell {
  /** What is asked for; empty without a law. */
  asked: string;
  measured: Figure;
}

/** A mean and a deviation in one unit: `20.0 ± 5.0 ms`. */
function spread(mean: number | null | undefined, deviation: number | null | undefined): string {
  const middle = seconds(mean, -1);
  if (typeof mean !== 'number' || typeof deviation !== 'number' || deviation < mean / 1e6) return text(middle);
  const scale = { s: 1, ms: 1e3, µs: 1e6, ns: 1e9 }[middle.unit] ?? 1;
  return `${middle.number} ± ${Number((deviation * scale).toPrecision(2))} ${middle.unit}`;
}

/** By the stage's name: the figures that the API has of it. Another stage shows its laws, and its first counter. */
const FIGURES: Record<string, (report: FlowReport, pace: Pace | undefined) => { asked: string | undefined; measured: Figure }> = {
  loss: ({ asked_figures, current }) => ({
    asked: typeof asked_figures.loss_ratio === 'number' ? text(percent(asked_figures.loss_ratio)) : undefined,
    measured: percent(current.realised.loss_ratio),
  }),
  rate: ({ asked_figures }, pace) => ({
    asked: typeof asked_figures.bits_per_second === 'number' ? text(bitRate(asked_figures.bits_per_second, -1)) : undefined,
    measured: bitRate(pace?.sentBits, -1),
  }),
  delay: ({ asked_figures, current }) => ({
    asked: typeof asked_figures.delay_mean_seconds === 'number' ? spread(asked_figures.delay_mean_seconds, asked_figures.delay_deviation_seconds) : undefined,
    measured: seconds(current.realised.delay_mean_seconds, -1),
  }),
  content: ({ asked_figures, current }) => ({
    asked: typeof asked_figures.modified_ratio === 'number' ? text(percent(asked_figures.modified_ratio)) : undefined,
    measured: percent(current.realised.modified_ratio),
  }),
};

/** A cell of a flow in force. Without a figure of what is asked, as with a trigger, it has the laws of that direction in words. */
export function cellOf(board: Board, stage: Stage, name: string, way: Way, report: FlowReport): Cell {
  const own = board.inForce(name)?.[way];
  const known = FIGURES[stage.name]?.(report, board.pace(name, way));
  if (known !== undefined) return { asked: known.asked ?? wordsOf(board.schema, stage, own), measured: known.measured };
  const counter = stage.counters[0];
  const counted = counter === undefined ? undefined : (report.current.counters as Record<string, number | undefined>)[counter.key];
  const came = report.current.counters.received_packets;
  return { asked: wordsOf(board.schema, stage, own), measured: counted === undefined || came === 0 ? ABSENT : percent(counted / came) };
}

/** The laws of a flow's stage as staged, and whether they differ from those in force. */
export function stagedOf(board: Board, row: { name: string; flow: JsonObject; isNew: boolean }, way: Way, stage: Stage): { asked: string; differs: boolean } {
  const before = board.inForce(row.name);
  const differs = row.isNew || before?.['profile'] !== row.flow['profile'] || !same(pick(before?.[way], stage), pick(row.flow[way], stage));
  if (!differs) return { asked: '', differs };
  const inherited = board.inheritedOf(row.name, way).map((one) => wordsOf(board.schema, stage, one.laws as JsonObject));
  return { asked: wordsOf(board.schema, stage, row.flow[way]) || (inherited.find((one) => one !== '') ?? ''), differs };
}
