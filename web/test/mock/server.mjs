// A stand-in for `weir serve --ui`: the same routes, shapes and headers, with figures made up. For tests of the page and
// for working on it (`npm run mock`). What it answers to a preview or a check is a toy; the program's is the real one.
import { createServer } from 'node:http';
import { readFileSync, existsSync } from 'node:fs';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { askedFigures, checked, checkedTimeline, positionOf, triggerOf, turned } from './emulator.mjs';
import { pairHistory } from './mesh.mjs';
import { SpeedMock } from './websocket.mjs';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const WEB = join(HERE, '../..');
const sample = (name) => JSON.parse(readFileSync(join(HERE, 'data', `${name}.json`), 'utf8'));
const schema = (name) => JSON.parse(readFileSync(join(WEB, '../docs/schemas', `weir.${name}-1.schema.json`), 'utf8'));

const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };
export const POLICY = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
// A report may be in a frame of the page.
const REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'; sandbox allow-scripts";

class Refused extends Error {
  constructor(status, detail, errors = [], more = {}) {
    super(detail);
    this.problem = { type: `urn:weir:problem:${status}`, title: String(status), status, detail, ...(errors.length > 0 && { errors }), ...more };
  }
}

const refuse = (field, given, accepted) => ({ field, given: String(given), accepted, message: `${given}; accepted: ${accepted}` });

/** What the parser would say of a plan: the few mistakes that tests make. */
function checkPlan(plan, root = '') {
  const errors = [];
  for (const [index, one] of (plan.connection ?? []).entries()) {
    const at = `${root}/connection/${index}`;
    if (one.rate !== undefined && !/^\d+(\.\d+)?[kMGT]?(pps)?(\/\d+)?$/.test(String(one.rate))) errors.push(refuse(`${at}/rate`, one.rate, 'a rate such as 10M, 2.5G, 50000pps or 10M/32'));
    if (one.payload !== undefined && one.transport === 'udp' && Number(one.payload) > 65_507) errors.push(refuse(`${at}/payload`, one.payload, '0 to 65 507'));
    if (one.mss !== undefined && (one.mss < 88 || one.mss > 32_767)) errors.push(refuse(`${at}/mss`, one.mss, '88 to 32767'));
  }
  return errors;
}

/** A flat plan as a file, and back: numbers, texts and switches of its connections. */
const tomlOf = ({ connection = [], ...plan }) => [plan, ...connection].map((table, index) => `${index > 0 ? '[[connection]]\n' : ''}${Object.entries(table).map(([key, value]) => `${key} = ${JSON.stringify(value)}\n`).join('')}`).join('\n');

function planOf(text) {
  const plan = { connection: [] };
  let table = plan;
  for (const line of text.split('\n').map((one) => one.replace(/(^|\s)#.*$/, '').trim()).filter((one) => one !== '')) {
    const [, key, value] = /^(\w+)\s*=\s*(".*"|[\d.]+|true|false)$/.exec(line) ?? [];
    if (line === '[[connection]]') plan.connection.push((table = {}));
    else if (key === undefined) return undefined;
    else table[key] = JSON.parse(value);
  }
  return plan;
}

const seconds = (text) => {
  const match = /^(\d+(?:\.\d+)?)(ns|us|ms|s|m)?$/.exec(String(text ?? ''));
  return match === null ? undefined : Number(match[1]) * ({ ns: 1e-9, us: 1e-6, ms: 1e-3, m: 60 }[match[2]] ?? 1);
};

function checkImpairment(config, root = '') {
  const errors = [];
  const laws = (at, one) => {
    const loss = one?.loss?.percentage;
    if (typeof loss === 'number' && (loss < 0 || loss > 100)) errors.push(refuse(`${at}/loss/percentage`, loss, '0 to 100'));
    for (const [name, law] of Object.entries(one?.delay ?? {})) {
      const times = name === 'constant' ? { '': law } : typeof law === 'object' && law !== null ? law : {};
      for (const [key, value] of Object.entries(times)) if (seconds(value) === undefined) errors.push(refuse(`${at}/delay/${name}${key && `/${key}`}`, value, 'a time such as 10, 2.5s, 40ms, 100us or 2m'));
    }
  };
  for (const [name, flow] of [...(config.flow ?? []).map((flow, index) => [`flow/${index}`, flow]), ['other', config.other]]) {
    const port = flow?.filter?.destination_port;
    if (port !== undefined && !/^\d+([-,]\d+)*$/.test(String(port))) errors.push(refuse(`${root}/${name}/filter/destination_port`, port, 'ports such as 80, 1000-2000'));
    laws(`${root}/${name}/a_to_b`, flow?.a_to_b);
    laws(`${root}/${name}/b_to_a`, flow?.b_to_a);
  }
  return errors;
}

/** A toy in the engine's place: the mean and deviation that were asked for, and independent losses. */
function preview({ configuration, flow, direction = 'forward', packets = 10_000, interval_seconds = 0.001, size_bytes = 1000 }) {
  const way = direction === 'forward' ? 'a_to_b' : 'b_to_a';
  const chosen = flow === 'other' ? configuration.other : (configuration.flow ?? []).find((one) => one.name === flow);
  const laws = chosen?.[way] ?? {};
  const loss = laws.loss?.percentage ?? laws.loss?.gilbert_elliott?.loss_percentage ?? 0;
  const law = laws.delay ?? {};
  const mean = seconds(law.normal?.mean ?? law.constant ?? law.exponential?.mean) ?? (law.uniform ? ((seconds(law.uniform.min) ?? 0) + (seconds(law.uniform.max) ?? 0)) / 2 : 0);
  const deviation = seconds(law.normal?.deviation) ?? 0;
  let state = 7;
  const draw = () => ((state = (state * 1_103_515_245 + 12_345) % 2_147_483_648), state / 2_147_483_648);
  const dispositions = Array.from({ length: Math.min(packets, 2000) }, () => (draw() * 100 < loss ? 'x' : '.')).join('');
  const bins = 40;
  const low = Math.max(0, mean - 4 * deviation);
  const width = deviation > 0 ? (8 * deviation) / bins : mean / bins || 1e-6;
  const edges = Array.from({ length: bins + 1 }, (_, index) => low + index * width);
  const delayOf = (spread) => {
    const weight = edges.slice(0, -1).map((edge) => (spread > 0 ? Math.exp(-(((edge + width / 2 - mean) / spread) ** 2) / 2) : Math.abs(edge - mean) < width ? 1 : 0));
    const whole = weight.reduce((sum, one) => sum + one, 0) || 1;
    const counts = weight.map((one) => Math.round((one / whole) * packets));
    let sum = 0;
    return { mean_seconds: mean, deviation_seconds: spread, min_seconds: low, p50_seconds: mean, p90_seconds: mean + spread, p99_seconds: mean + 2 * spread, max_seconds: edges.at(-1), histogram_edges_seconds: edges, histogram_packets: counts, cdf_seconds: edges.slice(1), cdf_ratio: counts.map((one) => (sum += one) / packets) };
  };
  const has = law.normal || law.constant || law.uniform || law.exponential;
  return {
    packets, interval_seconds, size_bytes,
    sent_packets: Math.round(packets * (1 - loss / 100)), lost_packets: Math.round((packets * loss) / 100), loss_ratio: loss / 100,
    queue_dropped_packets: 0, duplicated_packets: 0, reordered_packets: 0,
    loss_periods: loss > 0 ? { 1: Math.round((packets * loss) / 110), 2: Math.round((packets * loss) / 2200) } : {}, dispositions,
    ...(has && { delay: delayOf(deviation * 0.42) }),
    ...(has && { asked_delay: delayOf(deviation), ...(deviation > 0 && { differences: [{ figure: 'deviation', asked_seconds: deviation, outcome_seconds: deviation * 0.42, reason: 'order' }] }) }),
    sent_bits_per_second: (size_bytes * 8) / interval_seconds, laws: JSON.stringify(laws), notes: deviation > 0 ? ['fifo-release keeps the order, so the asked deviation shrinks where packets are close'] : [],
  };
}

const TRAFFIC = [
  {
    name: 'voip-g711',
    title: 'VoIP call, G.711, 20 ms',
    source: 'ITU-T G.711: 64 kbit/s.',
    own: false,
    plan: { schema: 'weir.plan/1', connection: ['forward', 'reverse'].map((direction) => ({ name: direction === 'forward' ? 'caller' : 'callee', transport: 'udp', direction, header: 'rtp', payload: 172, spacing: '20ms', tos: 184, voice: 'g711-plc' })) },
  },
];

const PROFILES = [
  { name: '3g-good', title: '3G (UMTS), good', source: 'a table', a_to_b: 'rate 420k, delay 100ms', b_to_a: 'rate 850k, delay 90ms' },
  { name: 'dsl', title: 'DSL', source: 'a table', a_to_b: 'rate 256k, delay 5ms', b_to_a: 'rate 2M, delay 5ms' },
  { name: 'geo', title: 'Satellite, geostationary', source: 'a table', a_to_b: 'rate 5M, delay 300ms', b_to_a: 'rate 25M, delay 300ms' },
];

/** The intervals of a running test after a time, and the sums of all of them. */
function historyOf({ intervals, state }, after) {
  const add = (sum, { sender, receiver }, seconds) => {
    sum.sent_packets += sender?.packets ?? 0;
    if (!receiver) return { ...sum, partial: true };
    const lost = receiver.lost_packets === undefined ? {} : { lost_packets: (sum.lost_packets ?? 0) + receiver.lost_packets };
    return { ...sum, ...lost, seconds: sum.seconds + seconds, received_bits: sum.received_bits + receiver.bits_per_second * seconds, received_bytes: sum.received_bytes + receiver.bytes, received_packets: sum.received_packets + receiver.packets };
  };
  const sums = { end_seconds: intervals.at(-1)?.end_seconds ?? 0, flows: [] };
  for (const { start_seconds, end_seconds, flows, total } of intervals) {
    const next = (sum, ends) => add(sum ?? { sent_packets: 0, seconds: 0, received_bits: 0, received_bytes: 0, received_packets: 0, partial: false }, ends, end_seconds - start_seconds);
    sums.flows = flows.map((flow) => ({ id: flow.id, ...next(sums.flows.find((one) => one.id === flow.id), flow) }));
    for (const way of ['forward', 'reverse']) if (total[way]) sums[way] = next(sums[way], total[way]);
  }
  const isOver = ['ended', 'interrupted', 'failed'].includes(state);
  return { intervals: isOver ? [] : intervals.filter((one) => one.end_seconds > after), sums };
}

export class Mock {
  #server;
  #readers = new Set();
  #timers = new Set();
  #sockets = new Set();
  instance = 'first';
  tests = [];
  plans = new Map();
  emulators = new Map();
  experiments = [];
  labs = [];
  /** What makes the present state of a mesh, by its name: see mesh.mjs. */
  meshes = new Map();
  tags = { id: { campaign: 'spring' } };
  calls = [];
  demo = { progress: [] };
  /** What each flow of an emulator receives. */
  packetsPerSecond = 1000;
  #demoEnds;
  /** How long an experiment or a demo runs. */
  experimentMs = 700;
  speed = new SpeedMock();
  #number = 0;
  hertz;

  constructor({ hertz = 4 } = {}) {
    this.hertz = hertz;
    const record = sample('run');
    this.records = new Map([
      [record.id, record],
      ['20260301-101500-a1b2c3', { ...record, id: '20260301-101500-a1b2c3', started_at: '2026-03-01T10:15:00.000Z' }],
    ]);
    this.runTags = new Map([[record.id, { campaign: 'spring' }]]);
    this.calibration = sample('calibration');
  }

  /** Listens and answers the address. */
  async start(port = 0) {
    this.#server = createServer((request, response) => void this.#serve(request, response));
    this.#server.on('connection', (socket) => (this.#sockets.add(socket), socket.on('close', () => this.#sockets.delete(socket))));
    this.#server.on('upgrade', (request, socket) => this.speed.upgrade(request, socket));
    await new Promise((resolve) => this.#server.listen(port, '127.0.0.1', resolve));
    this.port = this.#server.address().port;
    return `http://127.0.0.1:${this.port}`;
  }

  async stop() {
    for (const timer of this.#timers) clearInterval(timer);
    this.#timers.clear();
    for (const socket of this.#sockets) socket.destroy();
    this.#readers.clear();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** As if the server had been restarted: another instance, nothing running. */
  async restart(instance = 'second') {
    const port = this.port;
    await this.stop();
    this.instance = instance;
    this.tests = [];
    this.emulators.clear();
    await this.start(port);
  }

  /** Objects of which some reader wants samples. */
  get sampled() {
    return [...new Set([...this.#readers].flatMap((reader) => reader.samples ?? []))];
  }

  /** Open live streams. */
  get readers() {
    return this.#readers.size;
  }

  send(event, data) {
    const text = `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
    const wants = (reader) => event !== 'sample' || reader.samples === null || reader.samples.some((one) => one === data.kind || one === `${data.kind}:${data.id}`);
    for (const reader of this.#readers) if (wants(reader)) reader.write(text);
  }

  every(seconds, work) {
    const timer = setInterval(work, seconds * 1000);
    this.#timers.add(timer);
    return () => (clearInterval(timer), this.#timers.delete(timer));
  }

  // -- tests -------------------------------------------------------------------------------------------------------

  startTest({ host, plan, tags = {} }) {
    const errors = checkPlan(plan, '/plan');
    if ((!host && !plan.host) || /\s/.test(host)) errors.push(refuse('/host', host, 'a name or address'));
    if (errors.length > 0) throw new Refused(422, errors[0].message, errors);
    this.#number += 1;
    const flows = [];
    for (const one of plan.connection) {
      const copies = one.count ?? 1;
      for (let copy = 1; copy <= copies; copy += 1) {
        flows.push({ id: flows.length + 1, name: copies > 1 ? `${one.name}-${copy}` : (one.name ?? ''), transport: one.transport ?? 'tcp', direction: one.direction ?? 'forward', source: '', destination: '', payload_bytes: Number(one.payload ?? 1460), rate: one.rate ?? (one.transport === 'udp' ? '1M' : '0') });
      }
    }
    const waiting = new Set(plan.connection.filter((one) => one.autostart === false).map((one) => one.name));
    const test = { id: `t${this.#number}`, state: 'starting', host: host ?? plan.host, tags, asked_at: new Date().toISOString(), flows: [], warnings: [], flow_states: {} };
    this.tests.unshift(test);
    // Its program has to be started and to reach the host before it tells its flows.
    const begun = setTimeout(() => {
      if (test.state !== 'starting') return;
      if (/closed/.test(test.host)) Object.assign(test, { state: 'failed', exit_code: 3, error: `${test.host}: connection refused` });
      else Object.assign(test, { state: 'running', flows, flow_states: Object.fromEntries(flows.map((flow) => [flow.name, waiting.has(flow.name) ? 'waiting' : 'started'])), run_id: [...this.records.keys()][0] });
      this.told('tests', test);
    }, 40);
    this.#timers.add(begun);
    const live = { test, sequence: 0, at: 0 };
    const end = this.every(1 / this.hertz, () => this.sample(live, 1 / this.hertz));
    test.end = () => {
      end();
      // Without figures there is no record.
      test.state = test.intervals.length > 0 ? 'ended' : 'interrupted';
      test.flow_states = Object.fromEntries(flows.map((flow) => [flow.name, 'finished']));
      test.ended_at = new Date().toISOString();
      this.told('tests', test);
    };
    Object.defineProperty(test, 'end', { enumerable: false });
    // Set, the far end's figures do not come.
    Object.defineProperty(test, 'withheld', { value: false, writable: true, enumerable: false });
    Object.defineProperty(test, 'intervals', { value: [], enumerable: false });
    this.told('tests', test);
    const warning = { code: 'sender-cpu-bound', severity: 'warning', text: 'a processor of this host was 100 % busy: it could not keep the rate that was asked for', value: 1, bound: 0.95 };
    const warned = setTimeout(() => (test.warnings.push(warning), this.send('warning', { kind: 'tests', id: test.id, warning })), 300);
    this.#timers.add(warned);
    return test;
  }

  told(kind, one) {
    this.send('state', { kind, id: one.id, state: one.state, ...(one.run_id && { run_id: one.run_id }), ...(one.error && { error: one.error }) });
  }

  /** A record of what was made up: each flow's figures are those of its last interval. */
  #recordOf(test, parts) {
    const intervals = test.intervals;
    const last = intervals.at(-1) ?? { flows: [], total: {} };
    const flows = test.flows.map((flow) => {
      const { sender, receiver } = last.flows.find((one) => one.id === flow.id) ?? {};
      const delay = receiver?.mean_delay_seconds;
      return { ...flow, sender, receiver: receiver && { ...receiver, ...(delay !== undefined && { one_way_delay: { mean_seconds: delay } }) }, ...(flow.transport === 'tcp' && { tcp: { rtt_seconds: sender?.rtt_seconds } }) };
    });
    return { schema: 'weir.run/1', id: test.run_id, seconds: last.end_seconds ?? 0, flows, total: last.total, intervals: parts === 'summary' ? [] : intervals };
  }

  /** One interval of made-up figures for each flow. */
  sample(live, span) {
    const { test } = live;
    if (test.flows.length === 0 || test.state === 'failed') return;
    live.sequence += 1;
    live.at += span;
    const wave = (id) => 1 + 0.15 * Math.sin(live.at / 2 + id) + 0.05 * Math.random();
    const flows = test.flows.map((flow) => {
      const base = flow.transport === 'udp' ? 1e6 * (1 + (flow.id % 10)) : 40e6;
      const rate = base * wave(flow.id);
      const packets = rate / 8 / flow.payload_bytes;
      const bytes = Math.round((rate * span) / 8);
      const counts = { bytes, packets: Math.round(packets * span), bits_per_second: rate, packets_per_second: packets };
      return {
        id: flow.id,
        sender: { ...counts, ...(flow.transport === 'tcp' && { retransmits: 0, cwnd_bytes: 866_304, rtt_seconds: 0.0012 * wave(flow.id) }) },
        receiver: test.withheld ? null : { ...counts, ...(flow.transport === 'udp' && { lost_packets: flow.id % 7 === 0 ? 2 : 0, duplicate_packets: 0, reordered_packets: 0, jitter_seconds: 2.1e-5 * wave(flow.id), mean_delay_seconds: 0.0203 * wave(flow.id) }) },
      };
    });
    const sum = (way, key) => flows.filter((_, index) => test.flows[index].direction === way).reduce((all, flow) => all + flow.sender[key], 0);
    const total = {};
    for (const way of ['forward', 'reverse']) {
      if (!test.flows.some((flow) => flow.direction === way)) continue;
      const counts = { bytes: sum(way, 'bytes'), packets: sum(way, 'packets'), bits_per_second: sum(way, 'bits_per_second'), packets_per_second: sum(way, 'packets_per_second') };
      total[way] = { sender: counts, receiver: test.withheld ? null : { ...counts, lost_packets: 0 } };
    }
    const interval = { start_seconds: live.at - span, end_seconds: live.at, flows, total };
    test.latest = interval;
    test.intervals.push(interval);
    this.send('sample', { kind: 'tests', id: test.id, sequence: live.sequence, skipped: 0, at: new Date().toISOString(), interval });
  }

  // -- emulators ---------------------------------------------------------------------------------------------------

  startEmulator({ interfaces, configuration = { schema: 'weir.impair/1' }, packet_trace = false }) {
    if (interfaces[0] === 'eth0') throw new Refused(422, 'eth0 carries the default route', [refuse('/interfaces/0', 'eth0', 'an interface without the default route, or force')]);
    const entry = { id: `e${(this.#number += 1)}`, interfaces, links: interfaces.map((one) => `${one}: tpacket-v2 (delay and rate need the kernel's receive stamps, which AF_XDP lacks)`), notes: [], real_time: false, etag: 'c0', seed: configuration.seed ?? '0x7', stopped_flows: [], own: true, packet_trace: packet_trace ? 'stored' : 'none' };
    const emulator = { entry, configuration: { seed: '0x7', ...configuration }, version: 0, report: { ...sample('emulator'), interfaces, seconds: 0, alarms: [], alarm_thresholds: { cpu_percentage: 90, memory_percentage: 90, unplanned_packets: 0, late_packets: 0 }, packet_trace: packet_trace ? { path: `/data/emulators/${entry.id}.packets`, records: 0, dropped_records: 0, failed: false, bytes: 400, limit_bytes: 1073741824 } : undefined }, untraced: new Set(), triggers: new Map(), changes: [], lines: ['emulator started'], by: '127.0.0.1' };
    this.emulators.set(entry.id, emulator);
    this.#step(emulator, 0);
    this.every(0.5, () => this.emulators.has(entry.id) && this.#step(emulator, 0.5));
    this.send('state', { kind: 'emulators', id: entry.id, state: 'running' });
    return emulator;
  }

  #step(emulator, span) {
    const { report, configuration } = emulator;
    const old = new Map(report.impairment.flows.map((flow) => [`${flow.name}/${flow.direction}`, flow]));
    const template = sample('emulator').impairment.flows[0];
    const start = report.seconds;
    report.seconds += span;
    const before = report.packet_trace?.records ?? 0;
    report.impairment = {
      config: configuration,
      flows: [...(configuration.flow ?? []).map((flow) => flow.name), 'other'].flatMap((name) =>
        ['forward', 'reverse'].map((direction) => {
          const shown = preview({ configuration, flow: name, direction, packets: 100 });
          const counters = { ...(old.get(`${name}/${direction}`)?.counters ?? Object.fromEntries(Object.keys(template.counters).map((key) => [key, 0]))) };
          const came = Math.round(span * this.packetsPerSecond * (0.9 + 0.2 * Math.random()));
          const lost = Math.round(came * shown.loss_ratio);
          counters.received_packets += came;
          counters.received_bytes += came * 1000;
          counters.lost_packets += lost;
          counters.sent_packets += came - lost;
          counters.sent_bytes += (came - lost) * 1000;
          counters.delayed_packets += shown.delay ? came - lost : 0;
          // Counters that a test has invented.
          Object.assign(counters, this.counted);
          const traced = report.packet_trace ? !emulator.untraced.has(name) : undefined;
          if (traced) report.packet_trace.records += came;
          const asked = shown.laws === '{}' ? 'none' : shown.laws;
          const chosen = name === 'other' ? configuration.other : configuration.flow.find((one) => one.name === name);
          const laws = chosen?.[direction === 'forward' ? 'a_to_b' : 'b_to_a'] ?? {};
          const trigger = triggerOf(laws, emulator.triggers.get(`${name}/${direction}`));
          const asked_figures = trigger === undefined ? askedFigures(laws, shown) : {};
          const delay = shown.delay && { delay_min_seconds: shown.delay.min_seconds, delay_mean_seconds: shown.delay.mean_seconds, delay_max_seconds: shown.delay.max_seconds };
          const before = old.get(`${name}/${direction}`);
          const period = before === undefined ? { start, reason: 'start' } : before.asked !== asked ? { start, reason: 'laws' } : { start: before.current.start_seconds, reason: before.current.reason, counters: before.current.counters };
          const since = { ...(period.counters ?? Object.fromEntries(Object.keys(counters).map((key) => [key, 0]))) };
          since.received_packets += came;
          since.received_bytes += came * 1000;
          since.lost_packets += lost;
          since.sent_packets += came - lost;
          since.sent_bytes += (came - lost) * 1000;
          Object.assign(since, this.counted);
          const current = { start_seconds: period.start, seconds: report.seconds - period.start, reason: period.reason, counters: since, realised: { loss_ratio: since.received_packets > 0 ? since.lost_packets / since.received_packets : undefined, ...delay } };
          return { name, direction, hop: (configuration.flow ?? []).find((flow) => flow.name === name)?.hop ?? 1, active: true, counters, current, traced, trigger, asked, asked_figures, realised: { loss_ratio: counters.received_packets > 0 ? counters.lost_packets / counters.received_packets : undefined, ...(shown.delay && { delay_min_seconds: shown.delay.min_seconds, delay_mean_seconds: shown.delay.mean_seconds, delay_max_seconds: shown.delay.max_seconds }) }, lateness: { ...template.lateness, count: counters.sent_packets, p50_seconds: 0.000012, p99_seconds: 0.000081 } };
        }),
      ),
    };
    if (report.packet_trace) report.packet_trace.bytes += 52 * (report.packet_trace.records - before);
    for (const one of report.directions) {
      const mine = report.impairment.flows.filter((flow) => flow.direction === one.direction);
      for (const key of ['received_packets', 'received_bytes', 'sent_packets', 'sent_bytes']) one[key] = mine.reduce((sum, flow) => sum + flow.counters[key], 0);
      one.link.cpu_nanoseconds += span * 1e9 * 0.07;
      one.timeline = positionOf(configuration, report.seconds);
    }
    this.send('sample', { kind: 'emulators', id: emulator.entry.id, sequence: 1, skipped: 0, at: new Date().toISOString(), emulator: report });
  }

  configure(id, configuration, by = '127.0.0.1') {
    const emulator = this.emulators.get(id);
    emulator.configuration = configuration;
    emulator.version += 1;
    emulator.by = by;
    emulator.at = new Date().toISOString();
    emulator.entry.etag = `c${emulator.version}`;
    emulator.changes.push({ at: emulator.at, by, change: 'configuration' });
    this.send('edited', { document: `emulators/${id}/configuration`, by, etag: emulator.entry.etag, at: emulator.at });
    return { configuration: emulator.version, etag: emulator.entry.etag };
  }

  alarm(id, alarm) {
    this.emulators.get(id).report.alarms.push(alarm);
    this.send('alarm', { id, alarm });
  }

  // -- experiments -------------------------------------------------------------------------------------------------

  startExperiment({ scenario }, before) {
    const step = { name: 'loss', action: 'sweep', outcome: 'passed', seconds: 4.2, axes: ['loss'], expectations: [{ text: 'mean loss < 3 %', outcome: 'passed', bound: 0.03, measured: 0.0102, count: 5, reason: '1.02 % ± 0.08 % is below 3 %', at: {} }], points: [{ at: { loss: '1%' }, runs: 5, host_limited: 0, failed: 0, metrics: { loss: { count: 5, mean: 0.0102, min: 0.009, max: 0.011, interval: { low: 0.0094, high: 0.011, confidence_ratio: 0.95 } } } }], runs: [{ id: [...this.records.keys()][0], repetition: 1, host_limited: false, superseded: false, metrics: {}, warnings: [], at: {} }], found: [], steps: [] };
    const one = before ?? { id: `x${(this.#number += 1)}`, name: scenario, title: 'Latency under load', asked_at: new Date().toISOString(), progress: ['lab made'] };
    if (before === undefined) this.experiments.unshift(one);
    Object.assign(one, { state: 'running', resumable: false, ended_at: undefined, exit_code: undefined, verdict: undefined, outcome: undefined });
    this.told('experiments', one);
    const ended = (code, words, outcome, status, steps) => {
      one.state = status === 'complete' ? 'ended' : status;
      one.verdict = outcome;
      one.ended_at = new Date().toISOString();
      one.exit_code = code;
      one.progress.push(words);
      one.outcome = { schema: 'weir.experiment/1', id: one.id, name: scenario, outcome, status, seconds: 4.2, seed: '0x7', started_at: one.asked_at, version: '0.1.0', method: 'Round trips before a test and during it.', steps, variables: {}, tags: [], command: [], quick: true, simulated: false, tables: sample('tables') };
      this.told('experiments', one);
    };
    const work = setTimeout(() => ended(0, 'loss: passed', 'passed', 'complete', [step]), this.experimentMs);
    this.#timers.add(work);
    const stop = () => {
      if (one.state !== 'running') return;
      clearTimeout(work);
      one.resumable = true;
      ended(130, 'loss: skipped, interrupted', 'skipped', 'interrupted', [{ ...step, outcome: 'skipped', reason: 'interrupted: 2 of 5 runs were made', expectations: [], points: step.points.map((point) => ({ ...point, runs: 2 })) }]);
    };
    Object.defineProperty(one, 'stop', { value: stop, enumerable: false, configurable: true });
    return one;
  }

  // -- demo --------------------------------------------------------------------------------------------------------

  startDemo({ simulate = false }) {
    const told = () => this.send('state', { kind: 'demo', id: 'demo', state: this.demo.state, step: this.demo.progress.at(-1) });
    this.demo = { state: 'running', asked_at: new Date().toISOString(), progress: ['  measuring this host\u2019s noise floor'.trim()] };
    const ended = (more) => {
      clearTimeout(work);
      this.#demoEnds = undefined;
      this.demo = { ...this.demo, state: more.result === undefined ? 'interrupted' : 'ended', ended_at: new Date().toISOString(), ...more };
      told();
    };
    const work = setTimeout(() => ended({ exit_code: 5, result: { ...sample('demo'), simulated: simulate, ...(simulate && { clean: undefined }) } }), this.experimentMs);
    this.#timers.add(work);
    this.#demoEnds = () => ended({ exit_code: 130 });
    told();
    return this.demo;
  }

  // -- answers -----------------------------------------------------------------------------------------------------

  async #serve(request, response) {
    const url = new URL(request.url, 'http://mock');
    for (const [name, value] of Object.entries({ 'Content-Security-Policy': POLICY, 'X-Content-Type-Options': 'nosniff', 'Referrer-Policy': 'no-referrer', 'Cache-Control': 'no-store' })) response.setHeader(name, value);
    try {
      if (url.pathname.startsWith('/speed/v1/results/')) {
        const kept = this.speed.results.get(url.pathname.split('/').at(-1));
        response.statusCode = kept === undefined ? 404 : 200;
        return response.end(JSON.stringify(kept ?? {}));
      }
      if (!url.pathname.startsWith('/api/v1/')) return this.#file(url.pathname, response);
      const where = url.pathname.slice('/api/v1'.length).split('/').slice(1).map(decodeURIComponent);
      this.calls.push(`${request.method} ${url.pathname}`);
      if (this.calls.length > 1000) this.calls.shift();
      if (this.token !== undefined && where[0] !== 'session' && request.headers.cookie !== `weir=${this.token}`) throw new Refused(401, 'a token is needed: Authorization: Bearer TOKEN');
      if (where[0] === 'events') return this.#events(request, response);
      const chunks = [];
      for await (const chunk of request) chunks.push(chunk);
      const text = Buffer.concat(chunks).toString();
      const answer = this.#answer(request.method, where, url.searchParams, text === '' ? undefined : request.headers['content-type'] === 'application/octet-stream' ? text : JSON.parse(text), request.headers) ?? {};
      if (answer.etag !== undefined) response.setHeader('ETag', `"${answer.etag}"`);
      if (answer.cookie !== undefined) response.setHeader('Set-Cookie', `weir=${answer.cookie}; HttpOnly; SameSite=Strict; Path=/`);
      response.statusCode = answer.status ?? (answer.body === undefined ? 204 : 200);
      response.setHeader('Content-Type', answer.type ?? 'application/json');
      if (answer.policy !== undefined) response.setHeader('Content-Security-Policy', answer.policy);
      if (answer.file !== undefined) response.setHeader('Content-Disposition', `attachment; filename="${answer.file}"`);
      response.end(answer.body === undefined ? undefined : typeof answer.body === 'string' ? answer.body : JSON.stringify(answer.body));
    } catch (error) {
      const problem = error instanceof Refused ? error.problem : { type: 'urn:weir:problem:mock', title: 'Mock', status: 500, detail: String(error.stack ?? error) };
      response.statusCode = problem.status;
      response.setHeader('Content-Type', 'application/problem+json');
      response.end(JSON.stringify(problem));
    }
  }

  #file(path, response) {
    const file = normalize(path === '/' ? '/index.html' : path);
    const at = join(WEB, 'dist', file);
    if (file.includes('..') || !existsSync(at)) {
      response.statusCode = 404;
      return response.end('not found');
    }
    response.setHeader('Content-Type', TYPES[extname(at)] ?? 'application/octet-stream');
    response.setHeader('Cache-Control', 'no-cache');
    response.end(readFileSync(at));
  }

  #events(request, response) {
    response.samples = new URL(request.url, 'http://mock').searchParams.get('samples')?.split(',') ?? null;
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    response.write(`event: hello\ndata: ${JSON.stringify({ instance: this.instance, version: '0.1.0', at: new Date().toISOString(), rate: 10 })}\n\n`);
    this.#readers.add(response);
    request.on('close', () => this.#readers.delete(response));
  }

  #match(headers, etag, changed) {
    // Quoted in headers, bare in documents and events.
    const wanted = headers['if-match']?.replace(/^"(.*)"$/, '$1');
    if ((wanted !== undefined && wanted !== etag) || (headers['if-none-match'] === '*' && etag !== undefined)) throw new Refused(412, 'the document was changed meanwhile', [], { changed });
  }

  #answer(method, where, query, body, headers) {
    const [kind, id, part, name, verb] = where;
    const key = `${method} ${kind}`;
    const missing = () => new Refused(404, `there is no ${kind} ${JSON.stringify(id)}`);
    switch (key) {
      case 'GET system':
        return { body: { version: '0.1.0', instance: this.instance, started_at: '2026-03-01T08:00:00.000Z', host: 'lab-a', kernel: '6.1.0', token_needed: this.token !== undefined, may: { emulate: true, make_labs: true, run_scripts: false, reasons: ['named scripts: the server was started without --allow-commands'], capabilities: [] }, page: { built: true }, limits: { connections: 512, connections_per_address: 64, stream_readers: 32, body_bytes: 16777216, head_seconds: 10, body_seconds: 30, requests_per_second: 50, tests: 16, experiments: 2, emulators: 8, packet_trace_bytes: 1073741824, ended_kept: 100 }, key_names: [], calibration_id: this.calibration.id } };
      case 'POST session':
        if (body.token !== this.token) throw new Refused(401, 'the token is not known');
        return { cookie: body.token };
      case 'GET doctor':
        return { body: sample('doctor') };
      case 'GET calibration':
        return { body: { kept: this.calibration, running: false } };
      case 'POST calibration':
        return { status: 202, body: { kept: this.calibration, running: true, step: 'clocks' } };
      case 'GET interfaces':
        return { body: { interfaces: [{ name: 'lo', up: true, carrier: true, loopback: true, member: false, mtu_bytes: 65536, addresses: ['127.0.0.1/8'] }, { name: 'eth0', up: true, carrier: true, loopback: false, member: false, mtu_bytes: 1500, addresses: ['192.0.2.1/24'], qdisc: 'fq_codel', speed_bits_per_second: 1e9, in_use: 'carries the default route' }, ...['veth-a', 'veth-b'].map((one) => ({ name: one, kind: 'veth', up: true, carrier: true, loopback: false, member: false, mtu_bytes: 1500, addresses: [], qdisc: 'noqueue', speed_bits_per_second: 1e10 }))] } };
      case 'GET metrics':
        return { body: sample('metrics') };
      case 'GET schemas':
        return id === undefined ? { body: { schemas: ['plan', 'impair', 'run', 'scenario', 'experiment'].map((one) => ({ name: one, schema: `weir.${one}/1` })) } } : { body: this.schema?.(id) ?? schema(id), type: 'application/schema+json' };
      case 'GET audit':
        return { body: { entries: [{ at: '2026-03-01T08:04:00.000Z', address: '127.0.0.1', method: 'POST', path: '/api/v1/tests', status: 201 }], file: 'audit.jsonl' } };
      case 'GET clients':
        return { body: { addresses: ['0.0.0.0:9347'], open: true, refused: 0, clients: [{ session: 2, peer: '192.0.2.7:40112', flows: 3, opened_at: '2026-03-01T08:05:00.000Z' }, { session: 1, peer: '192.0.2.7:40090', flows: 1, opened_at: '2026-03-01T08:03:00.000Z', closed_at: '2026-03-01T08:03:12.000Z', reason: 'all flows ended' }] } };
      case 'GET tests':
        if (id === undefined) return { body: { tests: this.tests } };
        if (part === 'history') return { body: historyOf(this.tests.find((one) => one.id === id) ?? (() => { throw missing(); })(), Number(query.get('after') ?? 0)) };
        if (part === 'record') return { body: this.#recordOf(this.tests.find((one) => one.id === id) ?? (() => { throw missing(); })(), query.get('parts')) };
        return { body: this.tests.find((one) => one.id === id) ?? (() => { throw missing(); })() };
      case 'POST tests': {
        if (id === undefined) return { status: 201, body: { ...this.startTest(body) } };
        const test = this.tests.find((one) => one.id === id);
        if (test === undefined) throw missing();
        if (part === 'stop') test.end();
        else if (part === 'connections') {
          if (verb === 'rate') test.flows = test.flows.map((flow) => (flow.name === name ? { ...flow, rate: body.rate } : flow));
          else test.flow_states = { ...test.flow_states, [name]: verb === 'stop' ? 'finished' : 'started' };
          this.told('tests', test);
        }
        return { status: part === 'stop' ? 202 : 200, body: { ...test } };
      }
      case 'GET plans': {
        if (id === undefined) return { body: { plans: [...this.plans].map(([one, kept]) => ({ name: one, etag: kept.etag, modified_at: kept.at, connections: kept.plan.connection.length, host: kept.plan.host })), directory: '~/.config/weir/plans' } };
        const kept = this.plans.get(id);
        if (kept === undefined) throw missing();
        return { body: kept.plan, etag: kept.etag };
      }
      case 'PUT plans': {
        const kept = this.plans.get(id);
        if (headers['if-match'] === undefined && headers['if-none-match'] === undefined) throw new Refused(428, 'say which version is meant: If-Match, or If-None-Match: *');
        this.#match(headers, kept?.etag, kept && { document: `plans/${id}`, by: kept.by, etag: kept.etag, at: kept.at });
        const errors = checkPlan(body);
        if (errors.length > 0) throw new Refused(422, errors[0].message, errors);
        const next = { plan: body, etag: `p${(this.#number += 1)}`, at: new Date().toISOString(), by: '127.0.0.1' };
        this.plans.set(id, next);
        this.send('edited', { document: `plans/${id}`, by: '127.0.0.1', etag: next.etag, at: next.at });
        return { status: kept ? 200 : 201, body: { name: id, etag: next.etag, modified_at: next.at, connections: body.connection.length }, etag: next.etag };
      }
      case 'DELETE plans': {
        const kept = this.plans.get(id);
        if (headers['if-match'] === undefined) throw new Refused(428, 'say which version is meant: If-Match');
        this.#match(headers, kept?.etag, kept && { document: `plans/${id}`, by: kept.by, etag: kept.etag, at: kept.at });
        this.plans.delete(id);
        return {};
      }
      case 'POST validate': {
        if (id === 'impairment') return { body: checked(body, checkImpairment, PROFILES) };
        if (id === 'timeline') return { body: checkedTimeline(body) };
        const isFile = typeof body === 'string';
        if (id === 'plan') {
          const plan = isFile ? planOf(body) : body;
          const errors = plan === undefined ? [refuse('', 'line 1', 'TOML')] : checkPlan(plan);
          return { body: { valid: errors.length === 0, errors, notes: [], ...(errors.length === 0 && { toml: tomlOf(plan), ...(isFile && { document: plan }) }) } };
        }
        return { body: { valid: true, errors: [], notes: [] } };
      }
      case 'GET runs': {
        const record = this.records.get(id);
        if (id === undefined) {
          if ((query.get('where') ?? '').includes('nonsense')) throw new Refused(422, 'nonsense is no condition', [refuse('?where', query.get('where'), 'a condition such as loss>0.1%')]);
          const runs = [...this.records.values()].filter((one) => !query.get('host') || one.plan.host === query.get('host')).map((one) => ({ id: one.id, started_at: one.started_at, host: one.plan.host, transport: '1 tcp, 2 udp', forward_bits_per_second: one.total.forward.receiver.bits_per_second, reverse_bits_per_second: one.total.reverse?.receiver.bits_per_second, loss_ratio: 0, warnings: one.warnings.length, status: one.status, version: one.version, tags: this.runTags.get(one.id) ?? {} }));
          const isOfExperiment = (run) => 'experiment' in run.tags;
          const kind = query.get('kind') ?? 'all';
          const shown = runs.filter((run) => kind === 'all' || isOfExperiment(run) === (kind === 'experiments'));
          return { body: { runs: shown, total: shown.length, excluded_by_kind: runs.length - shown.length } };
        }
        if (record === undefined) throw missing();
        if (part === 'tags') return { body: this.runTags.get(id) ?? {}, etag: `${JSON.stringify(this.runTags.get(id) ?? {}).length}` };
        if (part === 'figures') return { body: { figures: figuresOf(record) } };
        if (part === 'summary') return { body: summaryOf(record) };
        if (part === 'report') return { body: '<!doctype html><title>report</title>', type: 'text/html' };
        return { body: record };
      }
      case 'POST imports': {
        // A file is as many runs as it has lines, each of them one of the runs here.
        const lines = body.trim().split('\n');
        if (headers['content-type'] !== 'application/octet-stream') throw new Refused(415, 'application/octet-stream');
        if (Number.isNaN(Date.parse(query.get('modified_at')))) throw new Refused(422, 'no time of the file');
        if (lines[0] === 'unknown') throw new Refused(422, 'FILE: invalid content: expected records of Weir, or a file of iperf3', [refuse('', 'content', 'records of Weir, or a file of iperf3')]);
        return { status: 201, body: { added: lines.length - 1, already_there: 1, ids: [...this.records.keys()].slice(0, lines.length) } };
      }
      case 'PUT runs':
        this.runTags.set(id, body);
        return { body, etag: `${JSON.stringify(body).length}` };
      case 'DELETE runs':
        this.records.delete(id);
        return {};
      case 'GET comparison': {
        const [a, b] = (query.get('runs') ?? '').split(',').map((one) => one.split('+'));
        const figure = (one, x, y, moved) => ({ name: one, label: one, better: one.includes('loss') ? 'lower' : 'higher', a: { value: x }, b: { value: y }, difference: y - x, difference_ratio: y / x - 1, moved, welch: { difference: y - x, low: (y - x) * 0.8, high: (y - x) * 1.2, t: 4, degrees_of_freedom: 18, p: 0.0002, p_adjusted: 0.0009 } });
        return { body: { schema: 'weir.runs-diff/1', a, b, confidence: 0.95, setup: [{ path: 'plan.connection[0].rate', a: ['50pps'], b: ['100pps'] }], figures: [figure('forward.throughput.bits_per_second', 19.6e6, 23.1e6, 'significant'), figure('voice.loss_ratio', 0.01, 0.02, 'significant'), figure('voice.jitter_seconds', 2e-5, 2.1e-5, 'not-significant')] } };
      }
      case 'GET report': {
        const experiments = query.getAll('experiment');
        if (experiments.length > 0) return { body: `<!doctype html><title>report</title><h1>${experiments.join(' ')}</h1>`, type: 'text/html', policy: REPORT_POLICY };
        const ids = query.getAll('run');
        const lacking = ids.find((one) => !this.records.has(one));
        if (lacking !== undefined) throw new Refused(404, `no run ${lacking}`, [refuse('?run', lacking, 'the id of a run')]);
        return { body: `${query.get('format')} of ${ids.join(' ')}`, type: query.get('format') === 'md' ? 'text/markdown' : 'text/html' };
      }
      case 'GET demo':
        return { body: this.demo };
      case 'POST demo':
        if (id === 'stop') return this.#demoEnds?.(), { status: 202, body: this.demo };
        if (this.demo.state === 'running') throw new Refused(409, 'a demo is running');
        return { status: 202, body: this.startDemo(body) };
      case 'GET scenarios': {
        const entry = { name: 'latency-under-load', title: 'Latency under load', method: 'Round trips before a TCP test and during it, in each direction, behind a link of 20 Mbit/s with a queue of 250 ms.', tags: ['latency'], steps: 1, needs_lab: true, runs_commands: false, variables: { seconds: 10, runs: 5 }, hosts: [] };
        const other = { ...entry, name: 'tools', title: 'Other tools over the same path', needs_lab: false, runs_commands: true, steps: 2, variables: {}, hosts: ['far'] };
        if (id === undefined) return { body: { scenarios: [entry, other], directories: ['scenarios'] } };
        return { body: { ...(id === 'tools' ? other : entry), text: `schema = "weir.scenario/1"\nname = "latency-under-load"\n# ${'a line that is longer than a page is wide '.repeat(8)}\n` } };
      }
      case 'GET experiments': {
        if (id === undefined) return { body: { experiments: this.experiments.map(({ outcome: _, ...rest }) => rest) } };
        const one = this.experiments.find((other) => other.id === id);
        if (one === undefined) throw missing();
        if (part === 'figures') return { body: { figures: figuresOf(this.records.values().next().value).slice(1, 2).map((figure) => ({ ...figure, y: { ...figure.y, from_zero: false }, series: figure.series.map((one) => ({ ...one, y: one.y.map((value) => 1e9 + value) })) })) } };
        return { body: one };
      }
      case 'POST experiments': {
        if (id === undefined) return { status: 201, body: this.startExperiment(body) };
        const one = this.experiments.find((other) => other.id === id);
        if (one === undefined) throw missing();
        if (part === 'stop') return one.stop(), { status: 202, body: one };
        if (!one.resumable) throw new Refused(409, `experiment ${id} can't be resumed: it is complete, or its checkpoint is missing`);
        return { status: 202, body: this.startExperiment({ scenario: one.name }, one) };
      }
      case 'POST sweeps': {
        const errors = body.over.flatMap((one, index) => (/^\w+=[\w.,:*]+$/.test(one) ? [] : [refuse(`/over/${index}`, one, 'NAME=VALUES')]));
        if (errors.length > 0) throw new Refused(422, errors[0].message, errors);
        return { status: 201, body: this.startExperiment({ scenario: 'sweep' }) };
      }
      case 'GET emulators': {
        if (id === undefined) return { body: { emulators: [...this.emulators.values()].map((one) => one.entry) } };
        const emulator = this.emulators.get(id);
        if (emulator === undefined) throw missing();
        if (part === 'configuration') return { body: emulator.configuration, etag: emulator.entry.etag };
        if (part === 'counters') return { body: emulator.report };
        if (part === 'history') return { body: { reports: emulator.history ?? [] } };
        if (part === 'packet-trace') {
          if (emulator.entry.packet_trace !== 'stored') throw new Refused(404, `emulator ${id} has no packet trace: start it with "packet_trace": true`);
          const more = name === 'configurations';
          return { body: more ? '' : `weir.packets of ${emulator.report.packet_trace.records} verdicts`, type: more ? 'application/x-ndjson' : 'application/octet-stream', file: `${id}.packets${more ? '.configurations' : ''}` };
        }
        if (part === 'log') return { body: { alarms: emulator.report.alarms, lines: emulator.lines, changes: emulator.changes } };
        return { body: emulator.entry, etag: emulator.entry.etag };
      }
      case 'POST emulators': {
        if (id === undefined) return { status: 201, body: this.startEmulator(body).entry };
        const { entry, version } = this.emulators.get(id);
        const all = [...(this.emulators.get(id).configuration.flow ?? []).map((flow) => flow.name), 'other'];
        const flows = part === 'flows' ? [name] : all;
        if (part === 'alarms') {
          const { report } = this.emulators.get(id);
          const isMeant = (alarm) => [undefined, alarm.kind].includes(body.kind) && [undefined, alarm.object].includes(body.object);
          const changed = report.alarms.filter((alarm) => isMeant(alarm) && (name === 'clear' ? !alarm.active : alarm.acknowledged_at_seconds === undefined));
          if (name === 'clear') report.alarms = report.alarms.filter((alarm) => !changed.includes(alarm));
          else for (const alarm of changed) alarm.acknowledged_at_seconds = report.seconds;
          return { body: { alarms: changed.length } };
        }
        if ((part === 'flows' ? verb : part) === 'reset') {
          const { report } = this.emulators.get(id);
          for (const flow of report.impairment.flows.filter((one) => flows.includes(one.name))) {
            flow.current = { start_seconds: report.seconds, seconds: 0, reason: 'reset', counters: Object.fromEntries(Object.keys(flow.counters).map((key) => [key, 0])), realised: {} };
          }
          return {};
        }
        if (verb === 'trigger') {
          const emulator = this.emulators.get(id);
          const chosen = name === 'other' ? emulator.configuration.other : emulator.configuration.flow.find((one) => one.name === name);
          const met = emulator.report.impairment.flows.filter((one) => one.name === name && one.trigger?.condition === 'command');
          if (met.length === 0) throw new Refused(422, `${name}: no trigger waits for a command`);
          for (const flow of met) emulator.triggers.set(`${name}/${flow.direction}`, turned(chosen[flow.direction === 'forward' ? 'a_to_b' : 'b_to_a'], flow.trigger));
          this.#step(emulator, 0);
          return {};
        }
        const on = (part === 'flows' ? verb : part) === 'run';
        entry.stopped_flows = on ? entry.stopped_flows.filter((one) => !flows.includes(one)) : [...new Set([...entry.stopped_flows, ...flows])];
        this.send('edited', { document: `emulators/${id}/configuration`, by: '127.0.0.1', etag: entry.etag, at: new Date().toISOString() });
        return { body: { configuration: version, etag: entry.etag } };
      }
      case 'PUT emulators': {
        const emulator = this.emulators.get(id);
        if (part === 'flows') {
          if (emulator.entry.packet_trace === 'none') throw new Refused(409, `emulator ${id} has no packet trace`, [refuse('/on', String(body.on), 'an emulator that was started with a packet trace')]);
          emulator.untraced[body.on ? 'delete' : 'add'](name);
          emulator.changes.push({ at: new Date().toISOString(), by: '127.0.0.1', change: `trace ${name} ${body.on ? 'on' : 'off'}` });
          this.#step(emulator, 0);
          return {};
        }
        if (part === 'alarms') {
          emulator.report.alarm_thresholds = body;
          return { body };
        }
        this.#match(headers, emulator.entry.etag, { document: `emulators/${id}/configuration`, by: emulator.by, etag: emulator.entry.etag, at: emulator.at });
        const errors = checkImpairment(body);
        if (errors.length > 0) throw new Refused(422, errors[0].message, errors);
        const told = this.configure(id, body);
        return { body: told, etag: told.etag };
      }
      case 'DELETE emulators':
        this.emulators.delete(id);
        this.send('state', { kind: 'emulators', id, state: 'ended' });
        return {};
      case 'POST laws': {
        const errors = checkImpairment(body.configuration, '/configuration');
        if (errors.length > 0) throw new Refused(422, errors[0].message, errors);
        return { body: preview(body) };
      }
      case 'GET profiles':
        return { body: { profiles: PROFILES, traffic: TRAFFIC } };
      case 'GET meshes': {
        const entries = [...this.meshes.values()].map((make) => make()).map((one) => ({ name: one.name, measured_at_unix_seconds: one.measured_at_unix_seconds, agents: one.agents.length, connected_agents: one.agents.filter((agent) => agent.state === 'connected').length, pairs: one.pairs.from.length }));
        if (id === undefined) return { body: { now_unix_seconds: Date.now() / 1000, meshes: entries } };
        const mesh = this.meshes.get(id)?.();
        if (mesh === undefined) throw new Refused(404, `no mesh "${id}"`);
        if (part === 'pairs') return { body: pairHistory(mesh, name, verb, query.get('since') ?? '1d') };
        return { body: { ...mesh, now_unix_seconds: mesh.now_unix_seconds ?? Date.now() / 1000 } };
      }
      case 'GET labs':
        return { body: { labs: this.labs } };
      case 'POST labs':
        this.labs.push({ name: body.name, hosts: [{ name: 'a', ipv4: '10.77.0.1', ipv6: 'fd00::1' }, { name: 'b', ipv4: '10.77.0.2', ipv6: 'fd00::2' }], nodes: body.middle ? ['a', 'm', 'b'] : ['a', 'b'] });
        return { status: 201, body: this.labs.at(-1) };
      case 'DELETE labs':
        this.labs = this.labs.filter((one) => one.name !== id);
        return {};
      default:
        throw new Refused(404, `there is no ${method} ${where.join('/')}`);
    }
  }
}

/** Some of the report's figures, from the record's intervals. */
/** The words of a run, as a server makes them. */
function summaryOf(record) {
  const received = record.total.forward?.receiver;
  return {
    title: record.plan.title ?? `Test with ${record.plan.host}`,
    subtitle: `run ${record.id} · ${record.status}`,
    sentence: `${(received?.bits_per_second / 1e6).toFixed(1)} Mbit/s arrived with a loss of 1 %; ${record.warnings.length} warnings affect the figures.`,
    headlines: [
      { label: 'Received', value: `${(received?.bits_per_second / 1e6).toFixed(1)} Mbit/s`, note: '20.0 Mbit/s sent, per-packet' },
      { label: 'Loss', value: '1 %', note: `${received?.lost_packets} packets` },
      { label: 'One-way delay, median', note: '' },
      { label: 'Round trip under load', value: '31.0 ms', note: '24.0 ms idle' },
    ],
    paragraphs: ['This host tested with a server for 10 s.', 'The measurements do not show what limited the rate.'],
    notices: [...record.warnings.map(({ severity, code, text }) => ({ severity, code, about: '', text })), { severity: 'info', code: 'late-slots', about: 'flow 1', text: '3 of 10000 slots were late' }],
    hosts: {
      hosts: ['This side', 'Other side'],
      facts: [
        { name: 'System', values: ['Debian GNU/Linux 12 6.1.0-18-amd64', 'Debian GNU/Linux 12 6.1.0-18-amd64'] },
        { name: 'Processor', values: ['AMD EPYC 7B13 64-Core Processor, 2 usable', null] },
        { name: 'Kernel settings', values: ['net.core.rmem_max = 212992; net.ipv4.tcp_available_congestion_control = reno cubic bbr; net.ipv4.tcp_rmem = 4096 131072 6291456', 'net.core.rmem_max = 212992'] },
      ],
    },
  };
}

function figuresOf(record) {
  const axis = (label, keyName, quantity, more = {}) => ({ label, key: keyName, quantity, scale: 'linear', from_zero: true, categories: [], ...more });
  const line = (title, key, quantity, of) => ({
    id: key.replaceAll('_', '-'), title, caption: `${title} of each flow by interval.`, x: axis('Time', 'time_seconds', 'seconds'), y: axis(title, key, quantity), references: [], shades: [],
    series: record.flows.map((flow) => ({ name: flow.name, mark: 'step', colour: flow.id - 1, heavy: false, x: record.intervals.map((one) => one.start_seconds), x_end: record.intervals.map((one) => one.end_seconds), y: record.intervals.map((one) => of(one.flows.find((other) => other.id === flow.id)) ?? null), low: [], high: [], host_limited: [] })),
  });
  const spread = {
    id: 'delay-by-size', title: 'Delay by size', caption: 'Mean and confidence interval of each size; the dashed line is what was asked for.', x: axis('Size', 'size_bytes', 'bytes'), y: axis('Losses', 'lost_packets', 'count'),
    references: [{ name: 'asked', place: 'horizontal', at: 22 }, { name: 'MTU', place: 'vertical', at: 1500 }], shades: [[0, 128]],
    series: [
      { name: 'histogram', mark: 'bars', heavy: false, x: [0, 256, 1024], x_end: [256, 1024, 2048], y: [4, 9, 15], low: [3, 7, 11], high: [5, 12, 19], host_limited: [1] },
      { name: 'mean', mark: 'points', heavy: true, x: [128, 640, 1536], x_end: [], y: [5, 10, 12], low: [], high: [], host_limited: [] },
    ],
  };
  return [spread, line('Throughput', 'receiver_bits_per_second', 'bits_per_second', (flow) => flow?.receiver?.bits_per_second), line('Jitter', 'jitter_seconds', 'seconds', (flow) => flow?.receiver?.jitter_seconds), line('Packets', 'receiver_packets_per_second', 'packets_per_second', (flow) => flow?.receiver?.packets_per_second)];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const address = await new Mock().start(Number(process.env.PORT ?? 9348));
  console.log(`mock of weir serve --ui at ${address}`);
}
