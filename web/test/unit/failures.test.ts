import { expect, it } from 'vitest';
import { failures } from '../../src/lib/failures';

it('tells each reason once, and how often', () => {
  const runs = [{ error: 'no peer' }, { id: '1-x' }, { error: 'busy' }, { error: 'no peer' }, { id: '2-x', error: 'cut' }, {}];
  expect(failures(runs)).toEqual([
    { words: 'no peer', count: 2 },
    { words: 'busy', count: 1 },
    { words: 'failed', count: 1 },
  ]);
  expect(failures([])).toEqual([]);
});
