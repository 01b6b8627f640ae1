// Words and tones of the states of agents.

import type { MeshAgent } from '../../lib/api/shapes';

export function stateOf(agent: MeshAgent): { word: string; tone: string; mark: string } {
  switch (agent.state) {
    case 'connected':
      return { word: 'connected', tone: 'good', mark: '' };
    case 'gone':
      return { word: 'gone', tone: 'bad', mark: '✕' };
    case 'unusable':
      return { word: "can't be measured", tone: 'warn', mark: '!' };
    default:
      return { word: 'unknown', tone: '', mark: '?' };
  }
}
