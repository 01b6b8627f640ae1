// The matrix of a mesh and the charts of a pair.
import { describe, expect, it } from 'vitest';
import type { MeshState, PairHistory } from '../../src/lib/api/shapes';
import { clock } from '../../src/lib/charts/plot/ticks';
import { factsOf, matrixOf, Pairs, short, shortAge } from '../../src/lib/mesh';
import { figuresOf } from '../../src/lib/pair-figures';

const NOW = 1_790_000_000;

/** A pair of agents 0 and 1 of `count` agents; `change` is its figures. */
function mesh(change: Record<string, (number | null)[]> = {}, count = 2): MeshState {
  return {
    name: 'm',
    now_unix_seconds: NOW,
    agents: Array.from({ length: count }, (_, index) => ({ name: 'abc'[index] ?? '' })),
    pairs: {
      from: [0], to: [1], at_unix_seconds: [NOW - 3], window_seconds: [60], sent_packets: [600], loss_ratio: [0.25],
      round_trip_p50_seconds: [0.01], round_trip_mean_seconds: [0.011], forward_delay_seconds: [0.004], return_delay_seconds: [0.006],
      one_way_error_seconds: [0.0005], last_sent_packets: [10], last_lost_packets: [2], ...change,
    },
    bursts: { from: [1], to: [0], at_unix_seconds: [NOW - 300], bits_per_second: [5e8] },
  } as MeshState;
}

const cellsOf = (state: MeshState, kind: Parameters<typeof matrixOf>[2]) => matrixOf(state, new Pairs(state), kind).cells;

describe('a matrix', () => {
  it('has loss and round trip in both cells of a pair, and says which agent probed', () => {
    for (const [kind, words] of [['loss', '25.0'], ['round-trip', '10.0']] as const) {
      const [self, there, back] = cellsOf(mesh(), kind);
      expect(self).toBeUndefined();
      expect([there?.text, back?.text]).toEqual([words, words]);
      expect([there?.isMirrored, back?.isMirrored]).toEqual([false, true]);
    }
  });

  it('has the one-way delay of each direction with its error', () => {
    const [, there, back] = cellsOf(mesh(), 'one-way');
    expect([there?.text, there?.below]).toEqual(['4.00', '±0.50']);
    expect([back?.text, back?.below]).toEqual(['6.00', '±0.50']);
    expect(cellsOf(mesh({ one_way_error_seconds: [null] }), 'one-way')[1]?.text).toBe('–');
  });

  it('has the rate of each direction with its age', () => {
    const [, there, back] = cellsOf(mesh(), 'rate');
    expect(there).toBeUndefined();
    expect([back?.text, back?.below, back?.isOld]).toEqual(['500', '5 m', false]);
    const failed = mesh();
    failed.bursts.bits_per_second = [null];
    expect(cellsOf(failed, 'rate')[2]?.text).toBe('failed');
  });

  it('marks what is older than 10 s, and what does not reply', () => {
    const fresh = cellsOf(mesh({ at_unix_seconds: [NOW - 11] }), 'loss')[1];
    expect(fresh?.isOld).toBe(false);
    const old = cellsOf(mesh({ at_unix_seconds: [NOW - 36], last_lost_packets: [10] }), 'loss')[1];
    expect([old?.isOld, old?.isDown, old?.below]).toEqual([true, false, '35 s']);
    const down = cellsOf(mesh({ last_lost_packets: [10] }), 'loss')[1];
    expect([down?.isDown, down?.below]).toEqual([true, 'no reply']);
  });

  it('shows the newer one of two pairs, and nothing where nothing was measured', () => {
    const both = Object.fromEntries(Object.entries(mesh().pairs).map(([key, [value = null]]) => [key, [value, value]]));
    const state = mesh({ ...both, from: [0, 1], to: [1, 0], at_unix_seconds: [NOW - 500, NOW - 3], loss_ratio: [0.5, 0] }, 3);
    const cells = cellsOf(state, 'loss');
    expect([cells[1]?.text, cells[1]?.isMirrored]).toEqual(['0', true]);
    expect(cells[2]).toBeUndefined();
  });

  it('has a level for each range of values', () => {
    expect([0, 0.0005, 0.005, 0.02, 0.1, 1].map((loss) => cellsOf(mesh({ loss_ratio: [loss] }), 'loss')[1]?.level)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(cellsOf(mesh(), 'round-trip')[1]?.level).toBe(0);
  });

  it('describes a direction completely', () => {
    const state = mesh();
    const facts = Object.fromEntries(factsOf(state, new Pairs(state), 1, 0));
    expect(facts['One-way delay']).toBe('6.000 ms ± 500.0 µs');
    expect(facts['Probed by']).toBe('a');
    expect(facts['Latest burst']).toBe('500.0 Mbit/s, 5 min 00 s ago');
    expect(facts['Figures of']).toBe('the last 1 min');
  });

  it('writes short numbers and ages', () => {
    expect([0, 0.001, 0.5, 9.999, 12.34, 123.4, 9999, 123_456].map(short)).toEqual(['0', '<.01', '0.50', '10.0', '12.3', '123', '9999', '123k']);
    expect([0, 99, 100, 5400, 200_000].map(shortAge)).toEqual(['0 s', '99 s', '2 m', '2 h', '2 d']);
  });
});

describe('the charts of a pair', () => {
  const point = (at: number, more = {}) => ({ at_unix_seconds: at, covered_seconds: 60, sent_packets: 600, received_packets: 600, lost_packets: 0, loss_ratio: 0, ...more });
  const history = (more: Partial<PairHistory>): PairHistory => ({ mesh: 'm', from: 'a', to: 'b', since_unix_seconds: 0, until_unix_seconds: 600, point_seconds: 60, points: [], bursts: [], changes: [], ...more });

  it('have a gap where nothing was measured', () => {
    const [loss] = figuresOf(history({ points: [point(0), point(60), point(240)] }));
    expect(loss?.series[0]?.x).toEqual([0, 60, 120, 240]);
    expect(loss?.series[0]?.y).toEqual([0, 0, null, 0]);
  });

  it('have a one-way delay only with its error', () => {
    const delays = { forward_delay_seconds: 0.004, return_delay_seconds: 0.006 };
    expect(figuresOf(history({ points: [point(0, delays)] })).map((one) => one.title)).toEqual(['Loss', 'Round trip']);
    const [, , oneWay] = figuresOf(history({ points: [point(0, { ...delays, one_way_error_seconds: 0.001 }), point(60, delays)] }));
    expect(oneWay?.series.map((one) => [one.name, one.y, one.low, one.high])).toEqual([['a → b', [0.004, null], [0.003, null], [0.005, null]], ['b → a', [0.006, null], [0.005, null], [0.007, null]]]);
  });

  it('mark changes of their figure', () => {
    const change = { at_unix_seconds: 120, from: 'a', to: 'b', figure: 'loss' as const, before: 0, after: 0.5, threshold: 0.1 };
    const [loss, trip] = figuresOf(history({ points: [point(0)], changes: [change] }));
    expect(loss?.references).toEqual([{ name: '0.00 % → 50.00 %', place: 'vertical', at: 120 }]);
    expect(trip?.references).toEqual([]);
  });

  it('show means where minutes were merged', () => {
    const trip = { round_trip: { count: 600, min_seconds: 1, mean_seconds: 2, max_seconds: 3 } };
    const [, figure] = figuresOf(history({ point_seconds: 180, points: [point(0, trip)] }));
    expect(figure?.series.map((one) => [one.name, one.y[0]])).toEqual([['mean', 2], ['largest', 3]]);
  });
});

describe('a time axis', () => {
  it('has marks at round times of day, and dates at midnight', () => {
    const start = new Date(2026, 2, 1, 22, 10).getTime() / 1000;
    expect(clock(start, start + 4 * 3600, 7).map((mark) => mark.label)).toEqual(['23:00', '03-02', '01:00', '02:00']);
    expect(clock(start, start + 3, 7).map((mark) => mark.label)).toEqual(['22:10:00', '22:10:01', '22:10:02', '22:10:03']);
    expect(clock(start, start + 20 * 86_400, 7).length).toBeLessThanOrEqual(8);
  });
});
