/**
 * The visible rows of a JSON value. Only what is open is looked at, without recursion, and a part of the
 * fields at a time: a value may be nested 10,000 times or have 100,000 fields.
 */
import { canonicalJson } from '@relay/protocol/wire';

export interface JsonRow {
  /** Where it is in the value: the positions in its parents. */
  readonly id: string;
  readonly depth: number;
  /** The name of a field, or the position of an item; undefined for the value itself. */
  readonly name: string | number | undefined;
  readonly content: RowContent;
}

export type RowContent =
  | { readonly kind: 'scalar'; readonly value: string | number | boolean | null }
  | {
      readonly kind: 'parent';
      readonly isArray: boolean;
      readonly size: number;
      readonly isOpen: boolean;
    }
  /** Fields of `parent` that are not shown. */
  | { readonly kind: 'rest'; readonly parent: string; readonly count: number };

export interface JsonRowState {
  /** What was opened or closed by hand. */
  readonly toggled: ReadonlyMap<string, boolean>;
  /** How many fields are shown, if more than the first ones. */
  readonly shown: ReadonlyMap<string, number>;
  /** Open nothing by itself. */
  readonly isCollapsed: boolean;
}

export const pageSize = 100;
/** What opens by itself: some levels, small parts, and not more than fits on a few screens. */
const openDepth = 3;
const openSize = 40;
const openRows = 200;

interface Frame {
  readonly id: string;
  readonly depth: number;
  readonly value: object;
  /** Undefined for an array. */
  readonly keys: readonly string[] | undefined;
  readonly size: number;
  readonly end: number;
  at: number;
}

export function rowsOf(value: unknown, state: JsonRowState): JsonRow[] {
  const rows: JsonRow[] = [];
  const frames: Frame[] = [];
  const add = (id: string, depth: number, name: JsonRow['name'], each: unknown) => {
    if (typeof each !== 'object' || each === null) {
      rows.push({ id, depth, name, content: { kind: 'scalar', value: scalarOf(each) } });
      return;
    }
    const keys = Array.isArray(each) ? undefined : Object.keys(each);
    const size = Array.isArray(each) ? each.length : (keys?.length ?? 0);
    const opensItself =
      !state.isCollapsed && depth < openDepth && size <= openSize && rows.length < openRows;
    const isOpen = size > 0 && (state.toggled.get(id) ?? opensItself);
    const content = { kind: 'parent', isArray: keys === undefined, size, isOpen } as const;
    rows.push({ id, depth, name, content });
    if (!isOpen) return;
    const end = Math.min(size, state.shown.get(id) ?? pageSize);
    frames.push({ id, depth, value: each, keys, size, end, at: 0 });
  };
  add('', 0, undefined, value);
  for (let frame = frames.at(-1); frame !== undefined; frame = frames.at(-1)) {
    const { id, depth, at, keys, end, size } = frame;
    if (at < end) {
      frame.at += 1;
      const name = keys === undefined ? at : keys[at];
      add(`${id}/${at}`, depth + 1, name, Reflect.get(frame.value, name ?? ''));
      continue;
    }
    frames.pop();
    if (size === end) continue;
    const content = { kind: 'rest', parent: id, count: size - end } as const;
    rows.push({ id: `${id}/rest`, depth: depth + 1, name: undefined, content });
  }
  return rows;
}

function scalarOf(value: unknown): string | number | boolean | null {
  switch (typeof value) {
    case 'string':
    case 'number':
    case 'boolean':
      return value;
    default:
      // JSON has nothing else.
      return null;
  }
}

const maxIndented = 200;

/** The JSON text. Deep values are not indented: the text would be mostly spaces. */
export function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value, null, isDeeperThan(value, maxIndented) ? 0 : 2) ?? 'null';
  } catch {
    // Too deep for the call stack.
    return canonicalJson(value);
  }
}

function isDeeperThan(value: unknown, limit: number): boolean {
  const pending = [{ value, depth: 0 }];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    if (next.depth > limit) return true;
    if (typeof next.value !== 'object' || next.value === null) continue;
    const depth = next.depth + 1;
    for (const child of Object.values(next.value)) {
      if (typeof child === 'object' && child !== null) pending.push({ value: child, depth });
    }
  }
  return false;
}
