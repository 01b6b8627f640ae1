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
