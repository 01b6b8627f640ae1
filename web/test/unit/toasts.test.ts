import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { toasts } from '../../src/lib/ui/toasts.svelte';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
afterEach(() => vi.useRealTimers());

const shown = () => toasts.list.map((one) => one.text);

test('notices disappear, errors later than others', () => {
  toasts.say('good', 'saved');
  toasts.say('bad', 'refused');
  vi.advanceTimersByTime(8_000);
  expect(shown()).toEqual(['refused']);
  vi.advanceTimersByTime(13_000);
  expect(shown()).toEqual([]);
});

test('no time passes while notices are read', () => {
  toasts.say('good', 'saved');
  vi.advanceTimersByTime(5_000);
  toasts.hold(true);
  toasts.say('info', 'meanwhile');
  vi.advanceTimersByTime(60_000);
  expect(shown()).toEqual(['saved', 'meanwhile']);
  toasts.hold(false);
  vi.advanceTimersByTime(2_100);
  expect(shown()).toEqual(['meanwhile']);
  vi.advanceTimersByTime(5_000);
  expect(shown()).toEqual([]);
});

test('closing one of them lets the time of the others pass', () => {
  const first = toasts.say('bad', 'refused');
  toasts.say('good', 'saved');
  toasts.hold(true);
  toasts.close(first);
  vi.advanceTimersByTime(8_000);
  expect(shown()).toEqual([]);
});
