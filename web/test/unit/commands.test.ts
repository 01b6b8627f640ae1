import { expect, test } from 'vitest';

import { quoted, repeating } from '../../src/lib/commands';

test('a run that a program started is repeated without its lost file', () => {
  const words =
    'weir test --json-stream --plan=/tmp/x/.tmpQ --key-file=k --port=1 --label=experiment=e --no-store --start-at=monotonic:5 -- 192.0.2.1';
  expect(repeating(words.split(' '), 'id')).toBe(
    'weir runs show id --plan > plan.json && weir test --plan=plan.json --key-file=k --port=1 -- 192.0.2.1',
  );
});

test('what a person gave stays, in words that a shell takes', () => {
  expect(repeating(['weir', 'test', 'h', '--plan=mine.toml'], 'id')).toBe('weir test h --plan=mine.toml');
  expect(quoted(['weir', 'test', 'h', '-T', "it's; rm", ''])).toBe("weir test h -T 'it'\\''s; rm' ''");
});
