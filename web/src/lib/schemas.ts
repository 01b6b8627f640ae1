// The published schemas, fetched once each, from which forms are built.

import { get, path } from './api/client';
import type { Schema } from './schema/model';

const cache = new Map<string, Promise<Schema>>();

/** A schema by its name in paths: `plan`, `impair`, `scenario`. */
export function schemaOf(name: string): Promise<Schema> {
  let found = cache.get(name);
  if (found === undefined) {
    found = get<Schema>(path`/schemas/${name}`);
    found.catch(() => cache.delete(name));
    cache.set(name, found);
  }
  return found;
}
