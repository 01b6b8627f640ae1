// Labels of an axis, its unit, and the width of text.

/** Width of a character of the charts' text, which is 11 units high: that of wide sans-serif fonts. */
export const CHARACTER = 6.6;

/** The width of a text, in the drawing's units. */
export type Measure = (text: string) => number;

/** An estimate that needs no font. Ideographs count twice. */
export const estimated: Measure = (text) => [...text].reduce((columns, one) => columns + ((one.codePointAt(0) ?? 0) >= 0x1100 && /\p{Alphabetic}/u.test(one) ? 2 : 1), 0) * CHARACTER;

/** A text that fits, shortened with an ellipsis if necessary. */
export function fitted(text: string, room: number, measure: Measure = estimated): string {
  if (measure(text) <= room) return text;
  let out = '';
  for (const one of text) {
    if (measure(out + one) + measure('…') > room) break;
    out += one;
  }
  return `${out}…`;
}

/** A unit: the value that is 1 of it, and its symbol. */
export interface Unit {
  factor: number;
  symbol: string;
}

const KI = 1024;
/** The units of each quantity of a figure, ascending. */
const UNITS: Record<string, [factor: number, symbol: string][]> = {
  seconds: [[1e-9, 'ns'], [1e-6, 'µs'], [1e-3, 'ms'], [1, 's']],
  bits_per_second: [[1, 'bit/s'], [1e3, 'kbit/s'], [1e6, 'Mbit/s'], [1e9, 'Gbit/s'], [1e12, 'Tbit/s']],
  packets_per_second: [[1, 'packets/s'], [1e3, 'kpackets/s'], [1e6, 'Mpackets/s']],
  transactions_per_second: [[1, 'transactions/s'], [1e3, 'ktransactions/s'], [1e6, 'Mtransactions/s']],
  transfers_per_second: [[1, 'transfers/s'], [1e3, 'ktransfers/s'], [1e6, 'Mtransfers/s']],
  bytes_per_second: [[1e3, 'kB/s']],
  bytes: [[1, 'B'], [KI, 'KiB'], [KI ** 2, 'MiB'], [KI ** 3, 'GiB'], [KI ** 4, 'TiB']],
  ratio: [[0.01, '%']],
  per_minute: [[1, 'per minute']],
};

/** The unit in which values up to `magnitude` have one to three whole digits. */
export function unitFor(quantity: string, magnitude: number): Unit {
  const table = UNITS[quantity] ?? [[1, '']];
  // A value that rounds to 1000 of a unit is shown as 1 of the next.
  const [factor, symbol] = table.findLast(([one]) => magnitude >= one * 0.9995) ?? table[0] ?? [1, ''];
  return { factor, symbol };
}

/** Groups the whole digits by three with a narrow no-break space, from five digits on. */
function grouped(digits: string): string {
  const [whole = '', part] = digits.split('.');
  const spaced = whole.replace('-', '').length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, '\u202f') : whole;
  return part === undefined ? spaced : `${spaced}.${part}`;
}

/** `1.500e+9` as `1.5e9`. */
function exponential(value: number, decimals: number): string {
  const [digits = '', exponent = ''] = value.toExponential(decimals).split('e');
  return `${digits.includes('.') ? digits.replace(/\.?0+$/, '') : digits}e${exponent.replace('+', '')}`;
}

/** A mark of a linear axis, in the axis' unit. */
export function linear(scaled: number, decimals: number): string {
  const magnitude = Math.abs(scaled);
  if (magnitude < 1e7 && decimals <= 6) return grouped(scaled.toFixed(decimals));
  if (magnitude === 0) return '0';
  // As many digits as distinguish the marks.
  return exponential(scaled, Math.min(Math.max(decimals + Math.floor(Math.log10(magnitude)), 0), 12));
}

/** A mark of a logarithmic axis, with its own unit. */
export function logarithmic(value: number, quantity: string): string {
  const { factor, symbol } = unitFor(quantity, value);
  const scaled = value / factor;
  // Marks have one significant digit; further digits are rounding errors.
  const decimals = Math.min(Math.max(-Math.floor(Math.log10(scaled)), 0), 6);
  const text = scaled >= 1e-4 && scaled < 1e7 ? grouped(scaled.toFixed(decimals)) : exponential(scaled, 0);
  return symbol === '' ? text : `${text}\u00a0${symbol}`;
}

/** The axis' name and unit. */
export const axisTitle = (label: string, symbol: string): string => [label, symbol].filter((one) => one !== '').join(', ');
