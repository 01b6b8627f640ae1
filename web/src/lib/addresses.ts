// Addresses at which others reach the test server of this host. Pure.

import type { InterfaceEntry } from './api/shapes';

/** The default port of the command line and of plans. */
export const DEFAULT_PORT = 9347;

/** Host and port of `0.0.0.0:9347` or `[::]:9347`. */
export function partsOf(address: string): { host: string; port: number } {
  const [, bracketed, plain = '', port] = /^(?:\[(.*)\]|([^:]*)):(\d+)$/.exec(address) ?? [];
  return { host: bracketed ?? plain, port: Number(port ?? DEFAULT_PORT) };
}

const isLocal = (host: string) => host === 'localhost' || host.startsWith('127.') || host === '::1';
const isAny = (host: string) => host === '0.0.0.0' || host === '::';

/**
 * What another host enters to reach a server that listens on these addresses: a listed address, or, if it listens on all of this host, the name
 * under which the page was opened, else the first address of an interface. Absent if other hosts cannot reach it.
 */
export function reachable(listening: readonly string[], opened: string, interfaces: readonly Pick<InterfaceEntry, 'loopback' | 'addresses'>[]): string | undefined {
  for (const { host, port } of listening.map(partsOf)) {
    const bare = opened.replace(/^\[(.*)\]$/, '$1');
    const own = interfaces.filter((one) => !one.loopback).flatMap((one) => one.addresses.map((address) => address.replace(/\/.*$/, '')));
    const found = !isAny(host) ? host : isLocal(bare) ? own.find((one) => !one.startsWith('fe80:')) : bare;
    if (found === undefined || found === '' || isLocal(found)) continue;
    const shown = found.includes(':') ? `[${found}]` : found;
    return port === DEFAULT_PORT ? found : `${shown}:${port}`;
  }
  return undefined;
}
