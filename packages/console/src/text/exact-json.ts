/**
 * JSON that a person has typed. `JSON.parse` rounds numbers with many digits, and makes large ones infinite,
 * which would be sent as null: what runs must be what was typed.
 */

/** Throws for what is not JSON, and for numbers that cannot be kept as they are. */
export function parseExactly(text: string): unknown {
  return JSON.parse(text, keepExactly);
}

function keepExactly(_name: string, value: unknown, context?: { readonly source?: string }) {
  if (typeof value !== 'number') return value;
  // Older browsers do not tell how it was written.
  const isKept =
    context?.source === undefined
      ? Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value))
      : digitsOf(context.source) === digitsOf(String(value));
  if (isKept) return value;
  const written = context?.source ?? String(value);
  throw new RangeError(`The number ${written.slice(0, 40)} cannot be kept exactly: make it a text`);
}

/** The same for all ways to write a number: `1.50` and `15e-1`. */
function digitsOf(written: string): string | undefined {
  const [, whole = '', fraction = '', exponent = '0'] =
    /^-?(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(written) ?? [];
  const digits = (whole + fraction).replace(/^0+/, '');
  const significant = digits.replace(/0+$/, '');
  if (significant === '') return whole === '' ? undefined : '0';
  const scale = Number(exponent) - fraction.length + digits.length - significant.length;
  return `${significant}e${scale}`;
}
