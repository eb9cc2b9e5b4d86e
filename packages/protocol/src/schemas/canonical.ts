/** An array or object that is being written. */
interface Frame {
  readonly holder: Readonly<Record<string | number, unknown>>;
  /** In their order; undefined for an array. */
  readonly keys: readonly string[] | undefined;
  readonly length: number;
  at: number;
  isEmpty: boolean;
}

/**
 * The canonical JSON text of a value: keys sorted by code unit at every level, no white space, own
 * enumerable properties only. Values that JSON cannot represent are written as `JSON.stringify` writes
 * them (an undefined property is omitted, elsewhere it is null), so the text does not change in the
 * store. A bigint is written in digits. Depth is not limited by the call stack. Throws a TypeError on
 * a cycle.
 */
export function canonicalJson(value: unknown): string {
  const root = toPlain(value);
  const whole = isHolder(root) ? leafText(root) : scalarText(root);
  if (whole !== undefined || !isHolder(root)) return whole ?? '';
  const inside = new Set<object>();
  const frames: Frame[] = [];
  let frame = enter(root, inside);
  let text = frame.keys === undefined ? '[' : '{';
  for (;;) {
    if (frame.at === frame.length) {
      text += frame.keys === undefined ? ']' : '}';
      inside.delete(frame.holder);
      const outer = frames.pop();
      if (outer === undefined) return text;
      frame = outer;
      continue;
    }
    const { at, keys } = frame;
    frame.at += 1;
    const key = keys?.[at];
    const item = toPlain(frame.holder[key ?? at]);
    if (key !== undefined && !hasText(item)) continue;
    if (!frame.isEmpty) text += ',';
    frame.isEmpty = false;
    if (key !== undefined) text += `${JSON.stringify(key)}:`;
    const isNested = isHolder(item);
    const leaf = isNested ? leafText(item) : scalarText(item);
    if (leaf !== undefined) {
      text += leaf;
    } else if (isNested) {
      frames.push(frame);
      frame = enter(item, inside);
      text += frame.keys === undefined ? '[' : '{';
    }
  }
}

/** `JSON.stringify` is much faster, and agrees where keys are in order and nothing is nested. */
function leafText(holder: object): string | undefined {
  if ('toJSON' in holder) return undefined; // has been called once
  if (!Array.isArray(holder) && !isSorted(Object.keys(holder))) return undefined;
  const items: readonly unknown[] = Array.isArray(holder) ? holder : Object.values(holder);
  return items.every(isScalar) ? JSON.stringify(holder) : undefined;
}

function isScalar(value: unknown): boolean {
  return !isHolder(value) && typeof value !== 'bigint' && typeof value !== 'function';
}

function enter(holder: object, inside: Set<object>): Frame {
  if (inside.has(holder)) throw new TypeError('A cyclic value cannot be written as JSON');
  inside.add(holder);
  const keys = Array.isArray(holder) ? undefined : sortedKeys(holder);
  const length = keys?.length ?? (holder as readonly unknown[]).length;
  return { holder: holder as Frame['holder'], keys, length, at: 0, isEmpty: true };
}

function sortedKeys(holder: object): readonly string[] {
  const keys = Object.keys(holder);
  // By code unit, which is the default.
  return isSorted(keys) ? keys : keys.toSorted();
}

function isSorted(keys: readonly string[]): boolean {
  return keys.every((key, at) => at === 0 || (keys[at - 1] ?? '') < key);
}

function isHolder(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

function toPlain(value: unknown): unknown {
  if (!isHolder(value) || !('toJSON' in value)) return value;
  return typeof value.toJSON === 'function' ? (value.toJSON() as unknown) : value;
}

function hasText(value: unknown): boolean {
  return value !== undefined && typeof value !== 'function' && typeof value !== 'symbol';
}

function scalarText(value: unknown): string {
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : 'null';
  if (typeof value === 'bigint') return value.toString();
  return hasText(value) ? JSON.stringify(value) : 'null';
}
