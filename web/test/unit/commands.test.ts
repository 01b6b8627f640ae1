import { expect, test } from 'vitest';

import { quoted, repeating } from '../../src/lib/commands';

test('a run that a program started is repeated without its lost file', () => {
  const words =
    'weir test --json-stream --plan=/tmp/weir-run-x/.tmpQ --key-file=k --port=1 --label=experiment=e --start-at=monotonic:5 -- 192.0.2.1';
  const again = 'weir test --plan=id.plan.json --key-file=k --port=1 -- 192.0.2.1';
  expect(repeating(words.split(' '), 'id')).toBe(`weir runs show id --plan > id.plan.json && ${again}`);
  // The store has none of it.
  expect(repeating(words.replace('--start-at', '--no-store --start-at').split(' '), 'id')).toBe(again);
  const server = 'weir test --json-stream --plan=/tmp/weir-ui-y/1.plan --control-socket=/tmp/weir-ui-y/1.sock -- h';
  expect(repeating(server.split(' '), 'id')).toBe('weir runs show id --plan > id.plan.json && weir test --plan=id.plan.json -- h');
});

test('what a person gave stays, in words that a shell takes', () => {
  for (const own of [
    'weir test h --plan=mine.toml',
    'weir test --json-stream --plan=mine.toml --label=experiment=mine h',
    'weir test --json-stream --plan=/home/me/plans/mine.toml h',
  ]) {
    expect(repeating(own.split(' '), 'id')).toBe(own);
  }
  expect(quoted(['weir', 'test', 'h', '-T', "it's; rm", ''])).toBe("weir test h -T 'it'\\''s; rm' ''");
});
