// The results that this browser measured or opened, newest first. Only here: a result's link is its secret.

import type { Grade, Result } from './figures';
import { median } from './figures';

export interface Entry {
  /** When, RFC 3339. */
  at: string;
  /** Absent if the server did not store the result. */
  link?: string;
  download?: number;
  upload?: number;
  idle?: number;
  loaded?: number;
  grade?: Grade;
}

const KEY = 'weir.speed';
const MOST = 20;

/** A result as a line of the history. */
export function entryOf(result: Result, link: string, at: string): Entry {
  const [idle, loaded] = [median(result.latency.idle), median([...result.latency.download, ...result.latency.upload])];
  return {
    at: result.at ?? at,
    ...(link !== '' && { link }),
    ...(result.download && { download: result.download.bits_per_second }),
    ...(result.upload && { upload: result.upload.bits_per_second }),
    ...(idle !== undefined && { idle }),
    ...(loaded !== undefined && { loaded }),
    ...(result.grade && { grade: result.grade }),
  };
}

/** The history with a further result; one that is in it already moves to the front. */
export function added(entries: readonly Entry[], entry: Entry): Entry[] {
  return [entry, ...entries.filter((one) => one.link === undefined || one.link !== entry.link)].slice(0, MOST);
}

/** The stored history; empty if there is none, or no storage. */
export function load(): Entry[] {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? '[]') as Entry[];
    return Array.isArray(kept) ? kept.filter((one) => typeof one?.at === 'string') : [];
  } catch {
    return [];
  }
}

/** Stores the history; a browser without storage keeps it until the page is closed. */
export function store(entries: readonly Entry[]): void {
  try {
    if (entries.length === 0) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, JSON.stringify(entries));
  } catch {
    // No storage, or it is full.
  }
}
