// The stages of a lane in the engine's order, from the schema: a stage that the schema gains gets a card by itself.

import { fieldOf, type JsonObject, resolve, type Schema } from './schema/model';

export interface Stage {
  name: string;
  title: string;
}

/** The stages that the schema knows, in their usual order, with their titles. */
export function stagesOf(root: Schema): Stage[] {
  return (root.$defs?.['Stage']?.oneOf ?? []).map((one) => ({ name: String(one.const), title: (one.description ?? String(one.const)).replace(/\.$/, '') }));
}

/** In the order that holds for these laws: those named by `order` first, the others as usual. */
export function orderOf(root: Schema, laws: JsonObject): Stage[] {
  const all = stagesOf(root);
  const asked = Array.isArray(laws['order']) ? laws['order'].map(String) : [];
  const first = asked.flatMap((name) => all.find((stage) => stage.name === name) ?? []);
  return [...first, ...all.filter((stage) => !asked.includes(stage.name))];
}

/** The schema of a stage's slot. */
export function slotOf(root: Schema, stage: string): Schema {
  const laws = root.$defs?.['Laws'];
  return laws === undefined ? {} : resolve(root, fieldOf(root, laws, stage).schema);
}

/** Which counters belong to which stage; those of a stage that is not here stand at the end of the lane. */
export const COUNTERS: Record<string, string[]> = {
  loss: ['lost_packets', 'duplicated_packets'],
  rate: ['queue_dropped_packets', 'marked_packets'],
  delay: ['delayed_packets', 'reordered_packets'],
  content: ['modified_packets'],
};

/** Counters of the lane's two ends. */
const ENDS = ['received_packets', 'sent_packets', 'unplanned_dropped_packets'];

/** Counters of packets that no stage of this lane shows, as those of a stage that the page does not know: where they count. */
export function othersOf(counters: Record<string, number | undefined>, stages: readonly Stage[]): string[] {
  const shown = new Set([...ENDS, ...stages.flatMap((stage) => COUNTERS[stage.name] ?? [])]);
  return Object.keys(counters).filter((key) => key.endsWith('_packets') && !shown.has(key) && (counters[key] ?? 0) > 0);
}
