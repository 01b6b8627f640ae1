import { expect, test } from 'vitest';
import { partsOf, reachable } from '../../src/lib/addresses';

const CARDS = [
  { loopback: true, addresses: ['127.0.0.1/8', '::1/128'] },
  { loopback: false, addresses: ['fe80::1/64', '192.0.2.1/24'] },
];

test('addresses are split', () => {
  expect(partsOf('0.0.0.0:9347')).toEqual({ host: '0.0.0.0', port: 9347 });
  expect(partsOf('[::]:5201')).toEqual({ host: '::', port: 5201 });
});

test('the address to enter on another host is one that exists', () => {
  expect(reachable(['0.0.0.0:9347'], 'lab-a.example', CARDS)).toBe('lab-a.example');
  expect(reachable(['0.0.0.0:9347'], '127.0.0.1', CARDS)).toBe('192.0.2.1');
  expect(reachable(['[::]:5201'], 'localhost', CARDS)).toBe('192.0.2.1:5201');
  expect(reachable(['[::]:5201'], '[2001:db8::1]', CARDS)).toBe('[2001:db8::1]:5201');
  expect(reachable(['198.51.100.7:9347'], 'localhost', CARDS)).toBe('198.51.100.7');
  expect(reachable(['127.0.0.1:9347'], 'lab-a.example', CARDS)).toBeUndefined();
  expect(reachable(['0.0.0.0:9347'], 'localhost', [])).toBeUndefined();
  expect(reachable([], 'localhost', CARDS)).toBeUndefined();
});
