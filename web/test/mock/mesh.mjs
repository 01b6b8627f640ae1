// Meshes as `weir serve` shows them, with figures made up.

/** A number from 0 to 1 that belongs to a text. */
function drawn(text) {
  let state = 7;
  for (const one of text) state = (state * 31 + one.codePointAt(0)) % 2_147_483_648;
  for (let turn = 0; turn < 4; turn += 1) state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
  return state / 2_147_483_648;
}

/**
 * A full mesh of agents. `gone` and `unusable` are names; pairs of these are old. `lost`: loss ratios by `from/to`. `down`: pairs in which
 * nothing replies. `at`: the present time, s since 1970.
 */
export function meshOf(name, agents, { gone = [], unusable = [], lost = {}, down = [], bursts = true, at = Date.now() / 1000 } = {}) {
  const columns = ['from', 'to', 'at_unix_seconds', 'window_seconds', 'sent_packets', 'loss_ratio', 'round_trip_p50_seconds', 'round_trip_mean_seconds', 'forward_delay_seconds', 'return_delay_seconds', 'one_way_error_seconds', 'last_sent_packets', 'last_lost_packets'];
  const pairs = Object.fromEntries(columns.map((column) => [column, []]));
  const measured = { from: [], to: [], at_unix_seconds: [], bits_per_second: [] };
  for (const [from, one] of agents.entries()) {
    for (const [to, other] of agents.entries()) {
      if (from === to) continue;
      if (bursts) {
        measured.from.push(from);
        measured.to.push(to);
        measured.at_unix_seconds.push(at - 60 - 900 * drawn(`${one}${other}`));
        measured.bits_per_second.push(other === unusable[0] ? null : 1e8 + 9e8 * drawn(`${other} ${one}`));
      }
      if (from > to) continue;
      const key = `${one}/${other}`;
      const trip = 0.002 + 0.08 * drawn(key) ** 2;
      const isOld = [...gone, ...unusable].some((agent) => agent === one || agent === other);
      const row = [from, to, isOld ? at - 754 : at - 3 - 2 * drawn(key), 60, 600, lost[key] ?? 0, trip, trip * 1.02, trip * 0.45, trip * 0.57, 0.0002, 10, down.includes(key) ? 10 : 0];
      for (const [index, column] of columns.entries()) pairs[column].push(row[index]);
    }
  }
  const stateOf = (agent) => (gone.includes(agent) ? 'gone' : unusable.includes(agent) ? 'unusable' : 'connected');
  return {
    name,
    measured_at_unix_seconds: at - 3,
    agents: agents.map((agent, index) => ({ name: agent, state: stateOf(agent), since_unix_seconds: at - (stateOf(agent) === 'connected' ? 86_400 : 750), address: `192.0.2.${index + 1}`, ...(stateOf(agent) === 'unusable' && { reason: 'version 0.0.9, not 0.1.0' }) })),
    pairs,
    bursts: measured,
  };
}

const SECONDS = { '1h': 3600, '6h': 21_600, '1d': 86_400, '7d': 604_800, '30d': 2_592_000 };

/** A pair whose round trip rises after two thirds of the time, with a loss of some minutes before. */
export function pairHistory(mesh, one, other, since) {
  const now = Math.floor(mesh.now_unix_seconds ?? Date.now() / 1000);
  const [from, to] = one < other ? [one, other] : [other, one];
  const length = SECONDS[since] ?? 86_400;
  const step = 60 * Math.max(1, Math.ceil(length / 60 / 1500));
  const start = Math.ceil((now - length) / step) * step;
  const change = start + Math.floor((length * 2) / 3 / step) * step;
  const points = [];
  for (let at = start; at + step <= now; at += step) {
    const part = (at - start) / length;
    // An agent was gone for a while.
    if (part > 0.2 && part < 0.24) continue;
    const noise = drawn(String(at));
    const median = (at >= change ? 0.032 : 0.02) + 0.0008 * noise;
    const lost = part > 0.45 && part < 0.48 ? Math.round(80 * noise) : noise > 0.985 ? 1 : 0;
    const sent = step * 10;
    const percentiles = step === 60 && { p50_seconds: median, p90_seconds: median * 1.08 };
    points.push({ at_unix_seconds: at, covered_seconds: step, sent_packets: sent, received_packets: sent - lost, lost_packets: lost, loss_ratio: lost / sent, arrived_packets: sent - lost, lost_forward_packets: lost, round_trip: { count: sent - lost, min_seconds: median * 0.9, mean_seconds: median * 1.01, max_seconds: median * (1.3 + noise), ...percentiles }, forward_delay_seconds: median * 0.45, ...(lost === 0 && { return_delay_seconds: median * 0.56 }), one_way_error_seconds: 0.0006 });
  }
  const bursts = Array.from({ length: 12 }, (_, index) => {
    const isBack = index % 2 === 1;
    const failed = index === 5;
    return { at_unix_seconds: start + ((index + 0.5) * length) / 12, from: isBack ? to : from, to: isBack ? from : to, transport: 'tcp', ...(failed ? { error: 'not done in time: other jobs use the agent’s host' } : { seconds: 5, bits_per_second: 4e8 + 1e8 * drawn(`b${index}`), retransmits: index, run: index === 11 ? '20260301-101500-a1b2c3' : `20260301-1015${String(index).padStart(2, '0')}-0000000a` }), is_stored_here: index === 11 };
  });
  return { mesh: mesh.name, from, to, since_unix_seconds: now - length, until_unix_seconds: now, point_seconds: step, points, bursts, changes: [{ at_unix_seconds: change, from, to, figure: 'round-trip', before: 0.0204, after: 0.0324, threshold: 0.002 }] };
}
