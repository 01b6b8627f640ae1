import { type JsonObject, words } from '../../lib/schema/model';

/** A flow of the staged configuration. */
export interface FlowRow {
  /** JSON pointer: `/flow/0` or `/other`. */
  path: string;
  name: string;
  flow: JsonObject;
  /** Whether it is staged only. */
  isNew: boolean;
}

/** Which packets a flow has. */
export const filterOf = (row: FlowRow): string => (row.path === '/other' ? 'packets that no filter matches' : words(row.flow['filter']) || 'every packet');
