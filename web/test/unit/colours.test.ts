import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { Colours } from '../../src/lib/charts/colours';
import { COLOURS, SLOTS, strokeOf } from '../../src/lib/charts/plot/draw';

describe('colours of series', () => {
  const ofReports = readFileSync(new URL('../../../crates/report/src/plot/style.css', import.meta.url), 'utf8').split('@media');
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

  it('are those of the reports, light and dark', () => {
    const [light = '', dark = ''] = ofReports.map((part) => [...part.matchAll(/--c\d+:(#[0-9a-f]{6})/g)].map(([, colour]) => colour).join(' '));
    const ofPage = themes.map((part) => Array.from({ length: COLOURS }, (_, index) => valueOf(part, `series-${index + 1}`)).join(' '));
    expect(ofPage).toEqual([light, dark, dark]);
  });

  it('repeat only with dashes or dots', () => {
    expect(new Set(Array.from({ length: SLOTS }, (_, index) => JSON.stringify(strokeOf(index)))).size).toBe(SLOTS);
    expect([15, 16, 32].map((slot) => strokeOf(slot).dash)).toEqual(['', '5 3', '1.5 2.5']);
  });

  it('are bound to names, whatever else is shown', () => {
    const colours = new Colours();
    expect(['a', 'b', 'a', 'c', 'b'].map((name) => colours.of(name))).toEqual([0, 1, 0, 2, 1]);
  });
});
