// The labs of the server, and the test servers in their hosts.

import { get, path, post, remove } from './api/client';
import type { LabList } from './api/shapes';
import { DEFAULT_PORT, partsOf } from './addresses';
import { generator } from './generator.svelte';
import { preferences } from './preferences.svelte';

export type Lab = LabList['labs'][number];
export type LabHost = Lab['hosts'][number];

class Labs {
  list = $state.raw<Lab[]>([]);

  async load(): Promise<void> {
    this.list = (await get<LabList>('/labs')).labs;
  }

  /** Starts a test server in a host and makes it the host of the plan. */
  async serve(lab: Lab, host: LabHost): Promise<void> {
    try {
      const server = await post<NonNullable<LabHost['server']>>(path`/labs/${lab.name}/hosts/${host.name}/server`);
      this.use(lab, { ...host, server });
    } finally {
      await this.load();
    }
  }

  async stop(lab: Lab, host: LabHost): Promise<void> {
    try {
      await remove(path`/labs/${lab.name}/hosts/${host.name}/server`);
    } finally {
      await this.load();
    }
  }

  /** Tests go to this host, from another one of its lab: other hosts can't reach it. */
  use(lab: Lab, host: LabHost): void {
    const port = host.server?.port ?? DEFAULT_PORT;
    generator.host = port === DEFAULT_PORT ? host.ipv4 : `${host.ipv4}:${port}`;
    const others = lab.hosts.filter((one) => one.name !== host.name).map((one) => `${lab.name}/${one.name}`);
    if (!others.includes(preferences.from)) preferences.from = others[0] ?? '';
  }

  /** The host of a lab with this address. */
  find(address: string): { lab: Lab; host: LabHost } | undefined {
    const bare = address.includes('.') || address.startsWith('[') ? partsOf(address).host || address : address;
    for (const lab of this.list) {
      const host = lab.hosts.find((one) => one.ipv4 === bare || one.ipv6 === bare);
      if (host !== undefined) return { lab, host };
    }
    return undefined;
  }
}

export const labs = new Labs();
