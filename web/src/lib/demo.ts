// The demo's result (`weir.demo/1`) as lines of a table. The keys of a figure end in its unit: `asked_seconds`.

import { ABSENT, type Figure, byUnit, count, text } from './format';

type Verdict = 'passed' | 'failed' | 'undecided';
type Json = Record<string, unknown>;

/** One figure of a row. */
export interface DemoLine {
  figure: string;
  asked: string;
  realised: string;
  measured: string;
  tolerance: string;
  verdict: Verdict;
  reason: string;
}

/** A row with the emulator in the middle. */
export interface DemoRow {
  name: string;
  laws: string;
  verdict: Verdict;
  reason: string;
  attempts: number;
  lines: DemoLine[];
}

/** A row on a plain link. */
export interface CleanRow {
  name: string;
  asked: string;
  verdict: Verdict;
  reason: string;
  received: string;
  lost: string;
  delay: string;
  jitter: string;
}

const list = (value: unknown): Json[] => (Array.isArray(value) ? (value as Json[]) : []);
const words = (value: unknown): string => (typeof value === 'string' ? value : '');
const number = (value: unknown): number | undefined => (typeof value === 'number' ? value : undefined);
const shown = (unit: string, value: unknown): string => {
  const found = number(value);
  if (found === undefined) return ABSENT.number;
  // The mean of a law may be a fraction of a packet.
  const figure: Figure = unit === 'packets' && !Number.isInteger(found) ? { number: found.toFixed(1), unit: 'pkt' } : byUnit(unit, found);
  return text(figure);
};

function lineOf(figure: Json, flows: boolean): DemoLine {
  const unit = Object.keys(figure).find((key) => key.startsWith('asked_'))?.slice('asked_'.length) ?? '';
  const least = number(figure['min_packets']);
  const most = number(figure['max_packets']);
  const by = figure[`tolerance_${unit}`];
  return {
    figure: flows ? `${words(figure['figure'])}, flow ${String(figure['flow'])}` : words(figure['figure']),
    asked: shown(unit, figure[`asked_${unit}`]),
    realised: shown(unit, figure[`realised_${unit}`]),
    measured: shown(unit, figure[`measured_${unit}`]),
    tolerance: least !== undefined && most !== undefined ? `${count(least)} to ${count(most)}` : by !== undefined ? `± ${shown(unit, by)}` : words(figure['tolerance']),
    verdict: figure['verdict'] as Verdict,
    reason: words(figure['reason']),
  };
}

/** Rows with the emulator in the middle. The last lines of each: the packets sent on which emulator and receiver agree, then the dispositions of all that crossed the emulator. */
export function demoRows(result: unknown): DemoRow[] {
  return list((result as Json | undefined)?.['paths']).map((row) => {
    const figures = list(row['figures']);
    const flows = new Set(figures.map((one) => one['flow'])).size > 1;
    const lines = figures.map((one) => lineOf(one, flows));
    const dispositions = row['dispositions'] as Json | undefined;
    if (dispositions !== undefined) {
      const [sent = 0, matched = 0, predicted = 0, unpredicted = 0, remainder = 0] = ['sent_packets', 'matched_packets', 'predicted', 'unpredicted', 'remainder_packets'].map((key) => number(dispositions[key]));
      const stream = sent === 0 && predicted > 0;
      const none = shown('packets', undefined);
      const push = (name: string, asked: number, realised: string, measured: string, whole: boolean) =>
        lines.push({ figure: name, asked: shown('packets', asked), realised, measured, tolerance: 'exact', verdict: whole ? 'passed' : row['verdict'] === 'undecided' ? 'undecided' : 'failed', reason: '' });
      // The packets of a stream are not joined.
      if (!stream) push('packets joined', sent, none, shown('packets', matched), matched === sent && remainder === 0);
      push('dispositions', predicted + unpredicted, shown('packets', predicted), none, unpredicted === 0);
    }
    return { name: words(row['name']), laws: words(row['laws']), verdict: row['verdict'] as Verdict, reason: words(row['reason']), attempts: number(row['attempts']) ?? 1, lines };
  });
}

/** Rows on a plain link. */
export const cleanRows = (result: unknown): CleanRow[] =>
  list((result as Json | undefined)?.['clean']).map((row) => ({
    name: words(row['name']),
    asked: words(row['asked']),
    verdict: row['verdict'] as Verdict,
    reason: words(row['reason']),
    received: shown('bits_per_second', row['received_bits_per_second']),
    lost: row['lost_packets'] === undefined ? shown('packets', undefined) : `${count(number(row['lost_packets']))} of ${shown('packets', row['sent_packets'])}`,
    delay: shown('seconds', row['delay_p50_seconds']),
    jitter: shown('seconds', row['jitter_seconds']),
  }));
