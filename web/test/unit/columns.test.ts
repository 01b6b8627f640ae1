import { describe, expect, it } from 'vitest';
import { COLUMNS, type Column, csvOf, fitting, type Line, matches, sizeOf, sorted } from '../../src/lib/columns';
import { dscpOf, tosOf } from '../../src/lib/dscp';

const FIGURES = { rate: 1e6, packets: 10, loss: 0.5, jitter: undefined, delay: 0.02, sent: 2e6, round_trip: undefined, average: 9e5, received_bytes: 2048, received_packets: 100, lost_packets: 7, isPartial: false };
const line = (name: string, set: Record<string, string> = {}, figures: object | undefined = undefined): Line => ({ name, status: 'ready', reverse: false, set: (field) => set[field] ?? '', made: () => '', figures: figures && { ...FIGURES, ...figures } });
const column = (id: string) => COLUMNS.find((one) => one.id === id) as Column;

describe('columns', () => {
  it('are sorted by size, not by text, and lines without a value are last', () => {
    const lines = [line('a', { rate: '10M' }), line('b'), line('c', { rate: '500k' }), line('d', { rate: '1G' }), line('e', { rate: '0' })];
    const names = (isDown: boolean) => sorted(lines, (one) => one, column('requested_rate'), isDown).map((one) => one.name);
    expect(names(false)).toEqual(['c', 'a', 'd', 'e', 'b']);
    expect(names(true)).toEqual(['e', 'd', 'a', 'c', 'b']);
    expect(sorted([line('user-10'), line('user-9')], (one) => one, column('name'), false).map((one) => one.name)).toEqual(['user-9', 'user-10']);
    expect([sizeOf('8K', 1024), sizeOf('100ms'), sizeOf('2m'), sizeOf('random'), sizeOf('')]).toEqual([8192, 0.1, 120, 'random', undefined]);
  });

  it('are filtered by what is asked, not by figures that change', () => {
    const one = line('Voice', { transport: 'udp', rate: '10M' }, {});
    expect(['voice', 'UDP', '10 m', ''].map((text) => matches(one, text))).toEqual([true, true, true, true]);
    expect(matches(one, '1.000')).toBe(false);
  });

  it('leave out the ones of the lowest rank where there is no room', () => {
    const ids = (room: number) => fitting(COLUMNS, () => 10, room).map((one) => one.id);
    expect(ids(1000)).toEqual(COLUMNS.map((one) => one.id));
    expect(ids(10 * (COLUMNS.length - 2))).not.toContain('content');
    // A wide one that does not fit makes room for a narrow one of a lower rank.
    const wide = (one: Column) => (one.id === 'requested_rate' ? 1000 : 10);
    expect(fitting(COLUMNS, wide, 10 * COLUMNS.length).map((one) => one.id)).toEqual(COLUMNS.map((one) => one.id).filter((id) => id !== 'requested_rate'));
    expect(ids(0)).toEqual(COLUMNS.filter((one) => one.rank === undefined).map((one) => one.id));
  });

  it('say of a sum that it is a bound', () => {
    expect(column('received').text(line('a', {}, {}))).toEqual({ number: '2.000', unit: 'KiB' });
    expect(column('received').text(line('a', {}, { isPartial: true }))).toEqual({ number: '≥ 2.000', unit: 'KiB' });
    expect(column('lost').text(line('a', {}, { isPartial: true, lost_packets: undefined })).number).toBe('–');
    expect(column('lost').text(line('a')).number).toBe('');
  });

  it('are written in base units, texts quoted, absent values empty', () => {
    const rows = csvOf([line('a, "b"', { tos: '184' }, {}), line('c')]).split('\r\n').map((row) => row.split(/,(?=(?:[^"]*"[^"]*")*[^"]*$)/));
    const at = (row: number, key: string) => rows[row]?.[rows[0]?.indexOf(key) ?? -1];
    expect(['name', 'dscp', 'throughput_bits_per_second', 'jitter_seconds', 'lost_packets', 'sums_are_complete'].map((key) => at(1, key))).toEqual(['"a, ""b"""', 'ef', '1000000', '', '7', 'true']);
    expect([at(2, 'throughput_bits_per_second'), at(2, 'sums_are_complete')]).toEqual(['', '']);
    expect(rows.every((row) => row.length === rows[0]?.length || row[0] === '')).toBe(true);
  });
});

describe('code points', () => {
  it('have names', () => {
    expect([184, 0, 4 * 21, 185].map(dscpOf)).toEqual(['ef', 'cs0', '21', 'ef + ECN 1']);
    expect(['EF', ' af41 ', '21', '64', 'fast', ''].map(tosOf)).toEqual([184, 136, 84, undefined, undefined, undefined]);
  });
});
