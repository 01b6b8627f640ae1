import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { barReach, COLOURS, labelsOf, logRange, strokeOf, written } from '../../src/lib/charts/axes';
import { bitRate, byUnit, percent, seconds } from '../../src/lib/format';

describe('labels of an axis', () => {
  it('have as many digits as tell them apart', () => {
    expect(labelsOf([0, 5e5, 1e6], written(bitRate))).toEqual(['0 bit/s', '500.0 kbit/s', '1.000 Mbit/s']);
    expect(labelsOf([1e9, 1.0002e9, 1.0004e9], written(bitRate))).toEqual(['1.0000 Gbit/s', '1.0002 Gbit/s', '1.0004 Gbit/s']);
    expect(labelsOf([0.02, 0.0200001], written(seconds))).toEqual(['20.0000 ms', '20.0001 ms']);
    expect(labelsOf([0, 0.00001, 0.00002, 0.00003], written((value, extra = 0) => percent(value, 2 + extra)))).toEqual(['0.000 %', '0.001 %', '0.002 %', '0.003 %']);
    expect(labelsOf([0, 500, 1000], written((value, extra) => byUnit('per_minute', value, extra)))).toEqual(['0 per minute', '500.0 per minute', '1000 per minute']);
  });

  it('are never repeated', () => {
    expect(labelsOf([1, 1, 2, null, null], (value) => String(value))).toEqual(['1', '', '2', '', '']);
    for (const unit of ['bits_per_second', 'packets_per_second', 'seconds', 'ratio', 'bytes', 'count', 'number', 'packets', 'per_minute']) {
      for (const [least, step] of [[0, 1e-7], [1e9, 1e4], [0.99, 0.001], [123_456, 0.5]] as const) {
        const labels = labelsOf([0, 1, 2, 3, 4].map((n) => least + n * step), written((value, extra) => byUnit(unit, value, extra))).filter((one) => one !== '');
        expect(new Set(labels).size, `${unit}: ${labels.join(', ')}`).toBe(labels.length);
      }
    }
  });
});

it('bars at both ends have room', () => {
  expect(barReach([0, 1, 2])).toBe(0.5);
  expect(barReach([0, 4, 6])).toBe(1);
  expect([barReach([7]), barReach([])]).toEqual([0.5, 0.5]);
});

describe('colours of lines', () => {
  const css = readFileSync(new URL('../../src/styles/tokens.css', import.meta.url), 'utf8');
  const themes = css.split(/(?=:root)/).filter((part) => part.includes('--series-1:'));
  const valueOf = (part: string, name: string) => new RegExp(`--${name}: (#[0-9a-f]{6})`).exec(part)?.[1] ?? '';
  const linear = (hex: string) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255).map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)) as [number, number, number];
  // Oklab (Ottosson, 2020): distances in it are those that are seen.
  const oklab = (hex: string): [number, number, number] => {
    const [r, g, b] = linear(hex);
    const [l, m, s] = [Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b), Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b), Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b)];
    return [0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s, 1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s, 0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s];
  };
  const luminance = (hex: string) => linear(hex).reduce((sum, one, index) => sum + one * ([0.2126, 0.7152, 0.0722][index] ?? 0), 0);

  it('are sixteen distinguishable ones with sufficient contrast', () => {
    expect(themes.length).toBe(3);
    for (const part of themes) {
      const colours = Array.from({ length: COLOURS }, (_, index) => valueOf(part, `series-${index + 1}`));
      const ground = luminance(valueOf(part, 'surface'));
      for (const [index, one] of colours.entries()) {
        const [low, high] = [luminance(one), ground].sort((a, b) => a - b) as [number, number];
        expect((high + 0.05) / (low + 0.05), `${one} on its ground`).toBeGreaterThanOrEqual(3);
        for (const other of colours.slice(0, index)) expect(Math.hypot(...oklab(one).map((value, at) => value - (oklab(other)[at] ?? 0))), `${one} and ${other}`).toBeGreaterThan(0.075);
      }
    }
  });

  it('repeat only with a dash', () => {
    const strokes = Array.from({ length: 32 }, (_, index) => JSON.stringify(strokeOf(index)));
    expect(new Set(strokes).size).toBe(32);
    expect(strokeOf(16)).toEqual({ colour: 1, dash: true });
  });
});

it('a logarithmic axis begins with one digit, and has a width', () => {
  expect(logRange(0.000009504, 0.000387)).toEqual([0.000009, 0.000387]);
  expect(logRange(0.00448, 1)).toEqual([0.004, 1]);
  expect(logRange(1, 3)).toEqual([1, 3]);
  expect(logRange(3, 3)).toEqual([1, 6]);
});
