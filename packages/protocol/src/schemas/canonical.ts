type Pending = { readonly text: string } | { readonly value: unknown } | { readonly leave: object };

/**
 * The canonical JSON text of a value: keys sorted by code unit at every level, no white space, own
 * enumerable properties only. Values that JSON cannot represent are written as `JSON.stringify` writes
 * them (an undefined property is omitted, elsewhere it is null), so the text does not change in the
 * store. A bigint is written in digits. Depth is not limited by the call stack. Throws a TypeError on
 * a cycle.
 */
export function canonicalJson(value: unknown): string {
  const parts: string[] = [];
  const inside = new Set<object>();
  const pending: Pending[] = [{ value: toPlain(value) }];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    if ('text' in next) {
      parts.push(next.text);
    } else if ('leave' in next) {
      inside.delete(next.leave);
    } else if (typeof next.value !== 'object' || next.value === null) {
      parts.push(scalarText(next.value));
    } else {
      if (inside.has(next.value)) throw new TypeError('A cyclic value cannot be written as JSON');
      inside.add(next.value);
      pending.push({ leave: next.value });
      for (const part of contents(next.value).toReversed()) pending.push(part);
    }
  }
  return parts.join('');
}

function contents(holder: object): Pending[] {
  const found: Pending[] = [];
  if (Array.isArray(holder)) {
    for (const item of holder) found.push({ text: ',' }, { value: toPlain(item) });
    return [{ text: '[' }, ...found.slice(1), { text: ']' }];
  }
  const entries = Object.entries(holder).map(([key, value]) => [key, toPlain(value)] as const);
  entries.sort(([a], [b]) => (a < b ? -1 : 1));
  for (const [key, value] of entries) {
    if (!hasText(value)) continue;
    found.push({ text: ',' }, { text: `${JSON.stringify(key)}:` }, { value });
  }
  return [{ text: '{' }, ...found.slice(1), { text: '}' }];
}

function toPlain(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || !('toJSON' in value)) return value;
  return typeof value.toJSON === 'function' ? (value.toJSON() as unknown) : value;
}

function hasText(value: unknown): boolean {
  return value !== undefined && typeof value !== 'function' && typeof value !== 'symbol';
}

function scalarText(value: unknown): string {
  if (typeof value === 'bigint') return value.toString();
  return hasText(value) ? JSON.stringify(value) : 'null';
}
