// Formatting of figures: four significant digits, always with the unit, absent distinguished from zero.

/** A figure split into number and unit, so that a table can align the numbers. */
export interface Figure {
  number: string;
  unit: string;
}

/** The figure for a value that was not measured. */
export const ABSENT: Figure = { number: '–', unit: '' };

type Maybe = number | null | undefined;

const DECIMAL = ['', 'k', 'M', 'G', 'T', 'P'];

function isFigure(value: Maybe): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}

/** `digits` significant digits, never in exponents, trailing zeros kept so that a live figure keeps its width. */
export function significant(value: number, digits = 4): string {
  if (value === 0) return '0';
  // Round first: 0.99995 with four digits is 1.000.
  const places = digits - 1 - Math.floor(Math.log10(Math.abs(Number(value.toPrecision(digits)))));
  return value.toFixed(Math.min(Math.max(places, 0), 9));
}

function scaled(value: Maybe, unit: string, digits = 4, base = 1000, prefixes = DECIMAL): Figure {
  if (!isFigure(value)) return ABSENT;
  let step = 0;
  let rest = value;
  // 999.95 would be printed as 1000.
  while (Math.abs(rest) >= base - 0.05 && step < prefixes.length - 1) {
    rest /= base;
    step += 1;
  }
  const number = step === 0 && Number.isInteger(rest) ? String(rest) : significant(rest, digits);
  return { number, unit: `${prefixes[step]}${unit}` };
}

/** A rate in bit/s. */
export const bitRate = (value: Maybe, extra = 0): Figure => scaled(value, 'bit/s', 4 + extra);

/** A rate in packets/s. */
export const packetRate = (value: Maybe, extra = 0): Figure => scaled(value, 'pkt/s', 4 + extra);

/** A volume in bytes, in powers of 1024 as in reports. */
export const bytes = (value: Maybe, extra = 0): Figure => scaled(value, 'B', 4 + extra, 1024, ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi']);

/** Maximum length of an IP packet, bytes. */
const PACKET = 65_535;

/** A value of an axis of bytes that ends at `most`: lengths of packets in plain bytes (`1200 B`), larger values as volumes. */
export const axisBytes = (value: Maybe, most: number, extra = 0): Figure =>
  Math.abs(most) <= PACKET + 1 && isFigure(value) ? { number: Number.isInteger(value) ? count(value) : significant(value, 4 + extra), unit: 'B' } : bytes(value, extra);

/** A send rate as a plan writes it (`10M`, `50kpps`, `10M/32`), with its unit. */
export function askedRate(text: string): string {
  const [, number = '', prefix = '', packets, burst = ''] = /^(\d+(?:\.\d+)?)([kKMGT]?)(pps)?(\/\d+)?$/.exec(text.trim()) ?? [];
  if (number === '') return text;
  if (Number(number) === 0) return 'unlimited';
  // One that follows from another figure has many digits.
  const shown = number.replace('.', '').length > 7 && number.includes('.') ? significant(Number(number)) : number;
  return `${shown} ${prefix.replace('K', 'k')}${packets ? 'pkt/s' : 'bit/s'}${burst && ` in bursts of ${burst.slice(1)}`}`;
}

/** A length in bytes as a plan writes it (`1470`, `8K`: powers of 1024), with its unit. */
export function askedBytes(text: string): string {
  const [, number = '', prefix = ''] = /^(\d+(?:\.\d+)?)([kKMGT]?)$/.exec(text.trim()) ?? [];
  return number === '' ? text : `${number} ${prefix && `${prefix.toUpperCase()}i`}B`;
}

/** A number of things, with thin spaces between thousands. */
export function count(value: Maybe): string {
  if (!isFigure(value)) return ABSENT.number;
  const digits = Math.round(Math.abs(value)).toString();
  const grouped = digits.replace(/\B(?=(\d{3})+$)/g, '\u202f');
  return value < 0 ? `−${grouped}` : grouped;
}

/** A time in seconds, shown in a unit chosen by magnitude. */
export function seconds(value: Maybe, extra = 0): Figure {
  if (!isFigure(value)) return ABSENT;
  const size = Math.abs(value);
  if (size === 0) return { number: '0', unit: 's' };
  if (size < 0.9995e-6) return { number: significant(value * 1e9, 3 + extra), unit: 'ns' };
  if (size < 0.9995e-3) return { number: significant(value * 1e6, 4 + extra), unit: 'µs' };
  if (size < 0.9995) return { number: significant(value * 1e3, 4 + extra), unit: 'ms' };
  return { number: significant(value, 4 + extra), unit: 's' };
}

/** Milliseconds with three decimals, for columns that are compared at a glance. */
export function milliseconds(value: Maybe): Figure {
  if (!isFigure(value)) return ABSENT;
  const inMs = value * 1e3;
  return { number: inMs.toFixed(Math.abs(inMs) < 1000 ? 3 : 0), unit: 'ms' };
}

/** A ratio in percent; a ratio above zero is never shown as zero. */
export function percent(ratio: Maybe, decimals = 2): Figure {
  if (!isFigure(ratio)) return ABSENT;
  const value = ratio * 100;
  const least = 10 ** -decimals;
  if (value > 0 && value < least / 2) return { number: `<${least.toFixed(decimals)}`, unit: '%' };
  return { number: value.toFixed(decimals), unit: '%' };
}

/** An elapsed time: `4 s`, `3 min 07 s`, `2 h 05 min`. */
export function elapsed(value: Maybe): string {
  if (!isFigure(value)) return ABSENT.number;
  const whole = Math.max(0, Math.floor(value));
  const two = (n: number) => String(n).padStart(2, '0');
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  return `${Math.floor(whole / 3600)} h ${two(Math.floor(whole / 60) % 60)} min`;
}

/** A date and time in this browser's time zone, to the second: `2026-03-01 14:05:09`. */
export function when(rfc3339: string | null | undefined): string {
  if (!rfc3339) return ABSENT.number;
  const at = new Date(rfc3339);
  if (Number.isNaN(at.getTime())) return rfc3339;
  const two = (n: number) => String(n).padStart(2, '0');
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** The same of seconds since 1970. */
export const whenUnix = (unixSeconds: number): string => when(new Date(unixSeconds * 1000).toISOString());

/** Number and unit in one string. */
export const text = (figure: Figure): string => (figure.unit ? `${figure.number} ${figure.unit}` : figure.number);

/** The unit in which the name of a JSON key or a metric ends; empty if there is none. */
export const unitOf = (name: string): string => /(?:^|[._])(bits_per_second|packets_per_second|transactions_per_second|seconds|ratio|bytes|packets)$/.exec(name)?.[1] ?? '';

/** A figure formatted by its unit, with `extra` additional digits. */
export function byUnit(unit: string, value: Maybe, extra = 0): Figure {
  switch (unit) {
    case 'bits_per_second':
      return bitRate(value, extra);
    case 'packets_per_second':
      return packetRate(value, extra);
    case 'transactions_per_second':
      return scaled(value, 'transactions/s', 4 + extra);
    case 'seconds':
      return seconds(value, extra);
    case 'ratio':
      return percent(value, 2 + extra);
    case 'bytes':
      return bytes(value, extra);
    case 'count':
      // A count that is not whole, as on an axis or for a mean, keeps its decimals.
      return { number: isFigure(value) && !Number.isInteger(value) ? significant(value, 4 + extra) : count(value), unit: '' };
    case 'number':
      return { number: isFigure(value) ? (Number.isInteger(value) ? String(value) : significant(value, 4 + extra)) : ABSENT.number, unit: '' };
    case 'unix_seconds':
      return { number: isFigure(value) ? whenUnix(value) : ABSENT.number, unit: '' };
    case 'packets':
      return { number: count(value), unit: 'pkt' };
    default:
      return isFigure(value) ? { number: significant(value, 4 + extra), unit: unit.replaceAll('_', ' ') } : ABSENT;
  }
}
