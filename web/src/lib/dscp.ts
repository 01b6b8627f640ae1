// Names of differentiated services code points in the IANA registry. Pure.

const NAMES: Record<string, number> = {
  cs0: 0, le: 1, cs1: 8, af11: 10, af12: 12, af13: 14, cs2: 16, af21: 18, af22: 20, af23: 22, cs3: 24, af31: 26, af32: 28, af33: 30,
  cs4: 32, af41: 34, af42: 36, af43: 38, cs5: 40, 'voice-admit': 44, ef: 46, cs6: 48, cs7: 56,
};

export const DSCP_NAMES = Object.keys(NAMES);

/** The code point of a TOS byte by name, else by number, with the ECN bits if they are set. */
export function dscpOf(tos: number): string {
  const point = tos >> 2;
  const name = DSCP_NAMES.find((one) => NAMES[one] === point) ?? String(point);
  return tos & 3 ? `${name} + ECN ${tos & 3}` : name;
}

/** The TOS byte of a name or a code point, 0 to 63; undefined if it is neither. */
export function tosOf(typed: string): number | undefined {
  const text = typed.trim().toLowerCase();
  const point = NAMES[text] ?? (/^\d{1,2}$/.test(text) ? Number(text) : undefined);
  return point === undefined || point > 63 ? undefined : point << 2;
}
