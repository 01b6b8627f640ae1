// The columns of the generator's table, for the table, the cards, sorting and files. Pure.

import { dscpOf, DSCP_NAMES, tosOf } from './dscp';
import { ABSENT, askedBytes, askedRate, bitRate, bytes, count, type Figure, milliseconds, packetRate, percent } from './format';
import type { Row } from './live/sums';
import type { Json } from './schema/model';

/** What columns show of a connection. */
export interface Line {
  name: string;
  status: string;
  reverse: boolean;
  /** A setting of the plan, or its default, as text; empty if there is neither. */
  set: (field: string) => string;
  /** What the running test chose for a setting that the plan leaves open; empty if unknown. */
  made: (field: string) => string;
  figures: Row | undefined;
}

/** How the settings of a column are edited. */
export interface Edit {
  /** The field of the plan's connection. */
  field: string;
  /** The text to edit, for a set value. */
  read?: (value: Json) => string;
  /** The value for a text; what is invalid is passed on to the server, whose message is better. */
  write?: (typed: string) => Json;
  choices?: readonly string[];
  /** Each connection has its own value. */
  isUnique?: boolean;
}

export interface Column {
  id: string;
  head: string;
  /** What it is, if the head does not say it. */
  about?: string;
  /** Its name in files; ends in the SI unit. */
  key: string;
  value: (line: Line) => number | string | undefined;
  text: (line: Line) => Figure;
  kind: 'text' | 'setting' | 'figure';
  /** The longest number of a figure, and the room for its unit, em. */
  sample?: string;
  unit?: number;
  edit?: Edit;
  /** By what its settings are sorted; absent: by their text. */
  size?: (text: string) => number | string | undefined;
  /** Lower ones are left out first where there is no room; absent: never left out. */
  rank?: number;
}

const NONE: Figure = { number: '', unit: '' };
const plain = (number: string): Figure => ({ number, unit: '' });

/** The number of a quantity of a plan (`10M`, `8K`, `2.5s`), in its base unit, so that quantities are sorted by size. */
export function sizeOf(text: string, base = 1000): number | string | undefined {
  if (text === '') return undefined;
  const [, number = '', prefix = ''] = /^(\d+(?:\.\d+)?)\s*([kKMGT]|ms|us|ns|s|m|h)?/.exec(text.trim()) ?? [];
  if (number === '') return text;
  const times: Record<string, number> = { ns: 1e-9, us: 1e-6, ms: 1e-3, s: 1, m: 60, h: 3600 };
  const power = ['', 'K', 'M', 'G', 'T'].indexOf(prefix.toUpperCase());
  return Number(number) * (times[prefix] ?? base ** Math.max(0, power));
}

/** A column of figures. Before the first figures its cells are empty. */
function figure(id: string, head: string, key: string, of: (row: Row) => number | undefined, format: (value: number | undefined) => Figure, more: Pick<Column, 'sample' | 'unit' | 'rank' | 'about'>): Column {
  return { id, head, key, kind: 'figure', value: ({ figures }) => figures && of(figures), text: ({ figures }) => (figures ? format(of(figures)) : NONE), ...more };
}

/** A sum since the start; if intervals are missing in it, it is a lower bound. */
function sumOf(id: string, head: string, key: string, of: (row: Row) => number | undefined, format: (value: number | undefined) => Figure, more: Pick<Column, 'sample' | 'unit' | 'rank' | 'about'>): Column {
  const column = figure(id, head, key, of, format, more);
  const bound = (shown: Figure): Figure => (shown === ABSENT ? shown : { ...shown, number: `≥ ${shown.number}` });
  return { ...column, text: (line) => (line.figures?.isPartial ? bound(column.text(line)) : column.text(line)) };
}

/** A setting of the plan with its unit. */
function setting(id: string, head: string, field: string, words: (text: string) => string, absent: string, more: Partial<Column>): Column {
  const of = (line: Line) => line.set(field) || line.made(field);
  return { id, head, key: id, kind: 'setting', value: (line) => of(line) || undefined, text: (line) => plain(of(line) === '' ? absent : words(of(line))), edit: { field }, ...more };
}

const whole = (value: number | undefined): Figure => (value === undefined ? ABSENT : plain(count(value)));

export const COLUMNS: readonly Column[] = [
  { id: 'name', head: 'Name', key: 'name', kind: 'text', value: (line) => line.name, text: (line) => plain(line.name || 'unnamed'), edit: { field: 'name', isUnique: true } },
  { id: 'state', head: 'State', key: 'state', kind: 'text', value: (line) => line.status, text: (line) => plain(line.status) },
  { id: 'transport', head: 'Transport', key: 'transport', kind: 'text', value: (line) => line.set('transport'), text: (line) => plain(`${line.set('transport')} ${line.reverse ? '←' : '→'}`) },
  setting('payload', 'Payload', 'payload', askedBytes, 'default', { key: 'payload_bytes', rank: 8, size: (text) => sizeOf(text, 1024) }),
  setting('requested_rate', 'Requested rate', 'rate', askedRate, 'default', { rank: 10, size: (text) => sizeOf(text) || Infinity }),
  setting('duration', 'Duration', 'duration', (text) => text, '–', { rank: 3, size: (text) => sizeOf(text) }),
  setting('dscp', 'DSCP', 'tos', (text) => dscpOf(Number(text)), '–', {
    rank: 2,
    value: (line) => (line.set('tos') === '' ? undefined : dscpOf(Number(line.set('tos')))),
    edit: { field: 'tos', read: (value) => dscpOf(Number(value)), write: (typed) => tosOf(typed) ?? typed, choices: DSCP_NAMES },
  }),
  setting('content', 'Content', 'content', (text) => text, '–', { rank: 1 }),
  figure('throughput', 'Throughput', 'throughput_bits_per_second', (row) => row.rate, bitRate, { sample: '888.8', unit: 3.2, about: 'Received rate over the last second, or of a finished test' }),
  { id: 'spark', head: 'Last minute', key: '', kind: 'figure', value: () => undefined, text: () => NONE, sample: '888.8 88', rank: 6 },
  figure('average', 'Average', 'average_bits_per_second', (row) => row.average, bitRate, { sample: '888.8', unit: 3.2, rank: 10, about: 'Mean received rate since the start' }),
  sumOf('received', 'Received', 'received_bytes', (row) => row.received_bytes, bytes, { sample: '≥ 88.88', unit: 2, rank: 9, about: 'Payload received since the start; ≥: some intervals are not known here' }),
  figure('sent', 'Sent', 'sent_bits_per_second', (row) => row.sent, bitRate, { sample: '888.8', unit: 3.2, rank: 4, about: 'Sent rate over the last second, or of a finished test' }),
  figure('packets', 'Packets', 'packets_per_second', (row) => row.packets, packetRate, { sample: '888.8', unit: 3.2, rank: 4, about: 'Arrived packets over the last second, or of a finished test' }),
  sumOf('received_packets', 'Received packets', 'received_packets', (row) => row.received_packets, whole, { sample: '≥ 88 888 888', rank: 1, about: 'Packets received since the start; ≥: some intervals are not known here' }),
  sumOf('lost', 'Lost', 'lost_packets', (row) => row.lost_packets, whole, { sample: '≥ 888 888', rank: 5, about: 'Packets lost since the start; ≥: some intervals are not known here' }),
  figure('loss', 'Loss', 'loss_ratio', (row) => row.loss, percent, { sample: '88.88', unit: 1.3, about: 'Loss over the last second, or of a finished test' }),
  figure('jitter', 'Jitter', 'jitter_seconds', (row) => row.jitter, milliseconds, { sample: '88.888', unit: 1.7, rank: 7, about: 'Interarrival jitter of datagrams: the last value' }),
  figure('delay', 'Delay', 'delay_seconds', (row) => row.delay, milliseconds, { sample: '888.888', unit: 1.7, about: 'Mean one-way delay of datagrams over the last second, or of a finished test' }),
  figure('round_trip', 'Round trip', 'round_trip_seconds', (row) => row.round_trip, milliseconds, { sample: '888.888', unit: 1.7, rank: 9, about: "Round trip of streams, as measured by the sender's TCP: the last value of an interval, or the mean of a finished test" }),
];

/** The columns that fit into `room`, in their order: those of the lowest rank are left out first. */
export function fitting(columns: readonly Column[], widthOf: (column: Column) => number, room: number): Column[] {
  let width = columns.reduce((sum, column) => sum + widthOf(column), 0);
  const shown = new Set(columns);
  const ranked = columns.filter((one) => one.rank !== undefined).sort((a, b) => (a.rank ?? 0) - (b.rank ?? 0));
  for (const column of ranked) {
    if (width <= room) break;
    shown.delete(column);
    width -= widthOf(column);
  }
  // A narrow one may fit where a wide one did not.
  for (const column of ranked.reverse()) {
    if (shown.has(column) || width + widthOf(column) > room) continue;
    shown.add(column);
    width += widthOf(column);
  }
  return columns.filter((column) => shown.has(column));
}

/** Sorted by a column; lines without a value are last, equal ones keep their order. */
export function sorted<Item>(items: readonly Item[], lineOf: (item: Item) => Line, column: Column, isDown: boolean): Item[] {
  const of = (line: Line) => {
    const value = column.value(line);
    return column.size !== undefined && typeof value === 'string' ? column.size(value) : value;
  };
  const compare = (a: number | string, b: number | string) => (typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b), 'en', { numeric: true }));
  return items
    .map((item) => ({ item, value: of(lineOf(item)) }))
    .sort((a, b) => {
      if (a.value === undefined || b.value === undefined) return Number(a.value === undefined) - Number(b.value === undefined);
      return isDown ? compare(b.value, a.value) : compare(a.value, b.value);
    })
    .map(({ item }) => item);
}

/** Whether a line's name, state or settings contain the text. */
export function matches(line: Line, text: string): boolean {
  const wanted = text.trim().toLowerCase();
  return wanted === '' || COLUMNS.some((column) => column.kind !== 'figure' && column.text(line).number.toLowerCase().includes(wanted));
}

/** The lines as CSV (RFC 4180), in base units. */
export function csvOf(lines: readonly Line[]): string {
  const field = (value: number | string | undefined) => (typeof value === 'string' && /[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : (value ?? ''));
  const columns = COLUMNS.filter((column) => column.key !== '');
  const rows = lines.map((line) => [...columns.map((column) => field(column.value(line))), line.reverse ? 'reverse' : 'forward', line.figures === undefined ? '' : String(!line.figures.isPartial)]);
  return [[...columns.map((column) => column.key), 'direction', 'sums_are_complete'], ...rows].map((row) => `${row.join(',')}\r\n`).join('');
}
