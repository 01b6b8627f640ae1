// What a server says of an emulator's laws, made up: figures that they ask for, and laws from presets and aggregates.

/** A rate such as `2M`. */
const bits = (text) => {
  const [, number, prefix] = /^(\d+(?:\.\d+)?)([kMG]?)$/.exec(String(text ?? '')) ?? [];
  return number === undefined ? undefined : Number(number) * ({ k: 1e3, M: 1e6, G: 1e9 }[prefix] ?? 1);
};

/** The figures of the laws of a direction; `delay` is the preview's. */
export function askedFigures(laws, shown) {
  const ratio = (percentage) => (typeof percentage === 'number' ? percentage / 100 : undefined);
  const figures = {
    loss_ratio: laws.loss ? shown.loss_ratio : undefined,
    duplicate_ratio: ratio(laws.duplicate?.percentage),
    modified_ratio: ratio(laws.content?.percentage),
    bits_per_second: bits(laws.rate?.bits),
    delay_mean_seconds: shown.asked_delay?.mean_seconds,
    delay_deviation_seconds: shown.asked_delay?.deviation_seconds,
  };
  return Object.fromEntries(Object.entries(figures).filter(([, value]) => value !== undefined));
}

/** `rate 256k, delay 5ms` as laws. */
const parsed = (text) => Object.fromEntries(text.split(', ').map((term) => term.split(' ')).map(([slot, value]) => [slot, slot === 'rate' ? { bits: value } : { constant: value }]));

export function inherited(configuration, profiles) {
  const found = [];
  const flows = [...(configuration.flow ?? []), { ...configuration.other, name: 'other' }];
  for (const flow of flows) {
    for (const [way, direction] of [['a_to_b', 'forward'], ['b_to_a', 'reverse']]) {
      const own = flow[way] ?? {};
      const add = (origin, name, laws) => {
        const left = Object.fromEntries(Object.entries(laws ?? {}).filter(([slot]) => own[slot] === undefined));
        if (Object.keys(left).length > 0) found.push({ flow: flow.name, direction, origin, name, laws: left });
      };
      const profile = profiles.find((one) => one.name === flow.profile);
      if (profile) add('preset', profile.name, parsed(profile[way]));
      for (const one of configuration.aggregate ?? []) if (one.flows.includes(flow.name)) add('aggregate', one.flows.filter((name) => name !== flow.name).join(', '), one[way]);
    }
  }
  return found;
}

/** A check of a configuration, or of a file's text; files are JSON here. */
export function checked(body, check, profiles) {
  let document = body;
  if (typeof body === 'string') {
    try {
      document = JSON.parse(body);
    } catch {
      return { valid: false, errors: [{ field: '', given: body.slice(0, 20), accepted: 'a document', message: 'line 1: not a document' }], notes: [] };
    }
  }
  const errors = check(document);
  if (errors.length > 0) return { valid: false, errors, notes: [] };
  return { valid: true, errors, notes: [], toml: `# ${JSON.stringify(document)}\n`, inherited: inherited(document, profiles), ...(typeof body === 'string' && { document }) };
}

/** The trigger of a direction's laws in its state, as reported; absent without one. */
export function triggerOf({ trigger }, { state = trigger?.start === undefined ? 'applying' : 'waiting', applications = state === 'applying' ? 1 : 0 } = {}) {
  if (trigger === undefined) return undefined;
  const condition = { waiting: trigger.start, applying: trigger.stop }[state];
  return { state, applications, ...(condition !== undefined && { condition }) };
}

/** The trigger after its condition has been met. */
export function turned({ trigger }, { state, applications }) {
  if (state === 'waiting') return { state: 'applying', applications: applications + 1 };
  return { state: trigger.rearm && applications < (trigger.repeat ?? Infinity) ? 'waiting' : 'done', applications };
}

/** Where a timeline is after a time; its times are in whole seconds. */
export function positionOf({ timeline }, seconds) {
  if (timeline === undefined) return undefined;
  const period = timeline.loop === undefined ? Infinity : Number.parseFloat(timeline.loop);
  const played = seconds * (timeline.speed ?? 1);
  const position_seconds = played % period;
  return { loops: 1 + (period === Infinity ? 0 : Math.floor(played / period)), changes: timeline.change.filter((one) => Number.parseFloat(one.at) <= position_seconds).length, position_seconds };
}

/** A check of a timeline: an object, or a text, which is JSON or CSV with percentages of loss. */
export function checkedTimeline(body) {
  let timeline = body;
  if (typeof body === 'string') {
    const [head, ...rows] = body.trim().split('\n').map((line) => line.split(','));
    if (head[0] === 'time') timeline = { change: rows.map(([at, loss]) => ({ at: `${at}s`, a_to_b: { loss: { percentage: Number(loss) } }, b_to_a: { loss: { percentage: Number(loss) } } })) };
    else {
      try {
        timeline = JSON.parse(body);
      } catch {
        return { valid: false, errors: [{ field: '', given: body.slice(0, 20), accepted: 'a timeline', message: 'line 1: not a timeline' }], inherited: [], notes: [] };
      }
    }
  }
  return { valid: true, errors: [], inherited: [], notes: [], toml: JSON.stringify(timeline), ...(typeof body === 'string' && { document: timeline }) };
}
