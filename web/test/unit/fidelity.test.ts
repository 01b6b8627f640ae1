import { describe, expect, it } from 'vitest';
import type { Fidelity } from '../../src/lib/api/shapes';
import { bounds, verdict } from '../../src/lib/fidelity';

const figures: Fidelity['figures'] = [
  { figure: 'lost_packets', value: 11_000, min: 9500, max: 10_500, is_within: false },
  { figure: 'delay_mean_seconds', value: 0.04, min: 0.039, max: 0.041, is_within: true },
];

const limit = { late_limit_seconds: 0.0003 };

describe('the verdict on a flow', () => {
  it('names what it covers and what it does not', () => {
    expect(verdict(undefined)).toBe('–');
    expect(verdict({ ...limit, verdict: 'not-judged', not_judged: ['loss'] })).toBe('not judged: loss');
    expect(verdict({ ...limit, verdict: 'not-judged' })).toBe('not judged');
    expect(verdict({ ...limit, verdict: 'differs', figures })).toBe('differs: lost packets');
    expect(verdict({ ...limit, verdict: 'as-asked', figures: figures.slice(1), not_judged: ['rate', 'reorder'] })).toBe('as asked: delay mean; not judged: rate, reorder');
  });

  it('shows the bounds of each figure', () => {
    expect(bounds({ ...limit, verdict: 'differs', figures }).split('\n')).toEqual(['lost packets: 11000, outside of 9500 to 10500', 'delay mean: 0.04, within 0.039 to 0.041']);
    const late: Fidelity['figures'] = [{ figure: 'late_packets', value: 7, min: 0, max: 5, is_within: false }];
    expect(bounds({ ...limit, verdict: 'host-limited', figures: late })).toBe('late packets by more than 300.0 µs: 7, outside of 0 to 5');
    expect(bounds(null)).toBe('');
  });
});
