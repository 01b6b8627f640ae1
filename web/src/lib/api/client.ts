// Requests to the API, and errors with the server's messages by field.

import type { Problem, DocumentChange } from './shapes';
import { save } from '../files';
import { stepsOf } from '../schema/model';

export const BASE = '/api/v1';

/** A refusal or failure reported by the server. */
export class ApiError extends Error {
  readonly status: number;
  readonly problem: Problem;
  /** Whether its messages are shown at the fields of a form, so that no notice repeats them. */
  isShown = false;

  constructor(status: number, problem: Problem) {
    super(problem.detail || problem.title);
    this.status = status;
    this.problem = problem;
  }

  /** The change by another client that caused a 412. */
  get changed(): DocumentChange | undefined {
    return this.problem.changed ?? undefined;
  }

  /** The server's messages by JSON pointer, for fields below `root`. */
  errorsBelow(root: string): Map<string, string> {
    return errorsBelow(this.problem.errors ?? [], root);
  }
}

interface FieldError {
  field: string;
  message: string;
}

/** Messages by pointer below `root`; others are omitted. */
export function errorsBelow(errors: readonly FieldError[], root: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const { field, message } of errors) {
    if (field !== root && !field.startsWith(`${root}/`)) continue;
    const below = field.slice(root.length);
    found.set(below, found.has(below) ? `${found.get(below)}; ${message}` : message);
  }
  return found;
}

/** Converts pointers with names (`/flow/NAME/…`) to pointers with indices; list items are found by their `name`. */
export function byPlace(errors: Map<string, string>, document: unknown): Map<string, string> {
  const moved = new Map<string, string>();
  for (const [path, message] of errors) {
    let here: unknown = document;
    const steps = stepsOf(path).map((step) => {
      if (Array.isArray(here) && !/^\d+$/.test(step)) {
        const index = here.findIndex((one: { name?: string }) => one?.name === step);
        here = here[index];
        return index < 0 ? step : String(index);
      }
      here = (here as Record<string, unknown> | undefined)?.[step];
      return step;
    });
    moved.set(steps.map((step) => `/${step.replaceAll('~', '~0').replaceAll('/', '~1')}`).join(''), message);
  }
  return moved;
}

/** Sends the token to the server, which returns it as a cookie that scripts can't read. */
export const unlock = async (token: string): Promise<void> => void (await call('POST', '/session', { body: { token } }));

/** Called when the server requires a token. */
export const onUnauthorized: { ask: () => void } = { ask: () => {} };

/** An entity tag without quotes, as in documents and events; in headers it is quoted, and a proxy may mark it as weak. */
export const bareTag = (tag: string): string => tag.replace(/^W\//, '').replace(/^"(.*)"$/, '$1');

export interface Answer<T> {
  data: T;
  /** Without quotes. */
  etag: string | undefined;
  status: number;
}

interface Options {
  query?: Record<string, string | number | boolean | string[] | undefined>;
  body?: unknown;
  /** A file as the body. */
  file?: Blob;
  /** Only if the document still has this entity tag (without quotes). */
  match?: string | undefined;
  /** Only if the document does not exist yet. */
  fresh?: boolean;
  signal?: AbortSignal;
}

export function path(template: TemplateStringsArray, ...values: (string | number)[]): string {
  return template.reduce((made, part, index) => made + encodeURIComponent(String(values[index - 1])) + part);
}

/** A query with its question mark; empty without parts. A list repeats its name. */
export function queryOf(query: Options['query']): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value === undefined || value === '') continue;
    for (const one of Array.isArray(value) ? value : [value]) search.append(name, String(one));
  }
  const text = search.toString();
  return text === '' ? '' : `?${text}`;
}

const urlOf = (where: string, query: Options['query']): string => `${BASE}${where}${queryOf(query)}`;

async function problemOf(response: Response): Promise<Problem> {
  const text = await response.text().catch(() => '');
  try {
    const parsed = JSON.parse(text) as Problem;
    if (typeof parsed.detail === 'string') return parsed;
  } catch {
    // Not JSON: a proxy's page, or nothing.
  }
  return { type: 'about:blank', title: response.statusText, status: response.status, detail: text.slice(0, 300) || `${response.status} ${response.statusText}`, errors: [] };
}

/** A request; the answer's body as JSON. Throws [`ApiError`]. */
export async function call<T>(method: string, where: string, options: Options = {}): Promise<Answer<T>> {
  const extra: Record<string, string> = { Accept: 'application/json' };
  if (options.body !== undefined) extra['Content-Type'] = 'application/json';
  if (options.file !== undefined) extra['Content-Type'] = 'application/octet-stream';
  if (options.match !== undefined) extra['If-Match'] = `"${options.match}"`;
  if (options.fresh) extra['If-None-Match'] = '*';
  let response: Response;
  try {
    response = await fetch(urlOf(where, options.query), {
      method,
      headers: extra,
      ...(options.body !== undefined && { body: JSON.stringify(options.body) }),
      ...(options.file !== undefined && { body: options.file }),
      ...(options.signal && { signal: options.signal }),
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, { type: 'about:blank', title: 'No answer', status: 0, detail: 'the server does not answer', errors: [] });
  }
  if (!response.ok) {
    if (response.status === 401 && where !== '/session') onUnauthorized.ask();
    throw new ApiError(response.status, await problemOf(response));
  }
  const text = await response.text();
  const tag = response.headers.get('ETag');
  return { data: (text === '' ? undefined : JSON.parse(text)) as T, etag: tag === null ? undefined : bareTag(tag), status: response.status };
}

export const get = async <T>(where: string, query?: Options['query'], signal?: AbortSignal): Promise<T> =>
  (await call<T>('GET', where, { query, ...(signal && { signal }) } as Options)).data;
export const post = async <T>(where: string, body?: unknown, signal?: AbortSignal): Promise<T> =>
  (await call<T>('POST', where, { body, ...(signal && { signal }) } as Options)).data;
export const remove = async (where: string, match?: string): Promise<void> => void (await call('DELETE', where, { match }));

/** Fetches a file and saves it through the browser. */
export async function download(where: string, query: Options['query'], name: string): Promise<void> {
  const response = await fetch(urlOf(where, query));
  if (!response.ok) throw new ApiError(response.status, await problemOf(response));
  save(await response.blob(), name);
}

/** The message of any error. */
export const wordsOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
