/**
 * Checks a value against a JSON Schema that somebody else has written. It is ours because such a
 * schema may be hostile: nothing is fetched, no regular expression is run, and the work is bounded,
 * whatever refers to whatever.
 *
 * `pattern`, `patternProperties`, `format` and words that it does not know are not looked at.
 */
import type { FieldIssue } from './errors.ts';
import { fieldPath } from './fields.ts';

export type JsonSchema = Readonly<Record<string, unknown>>;

const maxSteps = 200_000;
const maxIssues = 10;

type Path = readonly (string | number)[];

/** Thrown when a schema asks for more than anyone should do for it. */
class TooMuch extends Error {}

/** What is wrong with a value, the first few things; nothing if it fits. */
export function issuesOfValue(schema: JsonSchema, value: unknown): readonly FieldIssue[] {
  const found: FieldIssue[] = [];
  const check = new Check(schema, (path, message) => {
    if (found.length < maxIssues) found.push({ path: fieldPath(path), message });
  });
  try {
    check.value(schema, value, []);
  } catch (error) {
    if (!(error instanceof TooMuch || error instanceof RangeError)) throw error;
    return [{ path: '', message: 'The schema is too complex to be checked' }];
  }
  return found;
}

class Check {
  readonly #root: JsonSchema;
  #report: (path: Path, message: string) => void;
  #steps = 0;

  constructor(root: JsonSchema, report: (path: Path, message: string) => void) {
    this.#root = root;
    this.#report = report;
  }

  value(schema: unknown, value: unknown, path: Path): boolean {
    this.#steps += 1;
    if (this.#steps > maxSteps) throw new TooMuch();
    if (schema === false) return this.#wrong(path, 'Nothing may be here');
    if (!isObject(schema)) return true;
    const { $ref, enum: choices } = schema;
    if (typeof $ref === 'string' && !this.value(resolveRef(this.#root, $ref), value, path)) {
      return false;
    }
    if (!isOfType(schema['type'], value)) {
      return this.#wrong(path, `Must be ${typeWords(schema['type'])}`);
    }
    if ('const' in schema && !isSame(schema['const'], value)) {
      return this.#wrong(path, `Must be ${JSON.stringify(schema['const'])}`);
    }
    if (Array.isArray(choices) && !choices.some((choice) => isSame(choice, value))) {
      return this.#wrong(path, `Must be one of ${JSON.stringify(choices).slice(0, 200)}`);
    }
    return [
      this.#bounds(schema, value, path),
      this.#combined(schema, value, path),
      Array.isArray(value) ? this.#array(schema, value, path) : true,
      isObject(value) ? this.#object(schema, value, path) : true,
    ].every(Boolean);
  }

  #wrong(path: Path, message: string): false {
    this.#report(path, message);
    return false;
  }

  /** Whether it fits, without a word about why not. */
  #fits(schema: unknown, value: unknown, path: Path): boolean {
    const report = this.#report;
    this.#report = () => undefined;
    try {
      return this.value(schema, value, path);
    } finally {
      this.#report = report;
    }
  }

  #bounds(schema: JsonSchema, value: unknown, path: Path): boolean {
    const broken = boundsOf(value).filter(({ word, holds }) => {
      const bound = schema[word];
      return typeof bound === 'number' && !holds(bound);
    });
    for (const { word } of broken) this.#report(path, `Breaks ${word} ${String(schema[word])}`);
    return broken.length === 0;
  }

  #combined(schema: JsonSchema, value: unknown, path: Path): boolean {
    const all = listOf(schema['allOf']).map((part) => this.value(part, value, path));
    const { anyOf, oneOf, not, if: condition } = schema;
    let fits = all.every(Boolean);
    if (Array.isArray(anyOf) && !anyOf.some((part) => this.#fits(part, value, path))) {
      fits = this.#wrong(path, 'Fits none of the alternatives');
    }
    if (Array.isArray(oneOf)) {
      const count = oneOf.filter((part) => this.#fits(part, value, path)).length;
      if (count !== 1) fits = this.#wrong(path, `Fits ${count} of the alternatives, not one`);
    }
    if (not !== undefined && this.#fits(not, value, path)) {
      fits = this.#wrong(path, 'Is what it may not be');
    }
    if (condition === undefined) return fits;
    const next = this.#fits(condition, value, path) ? schema['then'] : schema['else'];
    return this.value(next, value, path) && fits;
  }

  #array(schema: JsonSchema, value: readonly unknown[], path: Path): boolean {
    const first = listOf(schema['prefixItems']);
    const { items, contains } = schema;
    const fitting = value.map((item, index) =>
      this.value(index < first.length ? first[index] : items, item, [...path, index]),
    );
    if (contains !== undefined && !value.some((item) => this.#fits(contains, item, path))) {
      return this.#wrong(path, 'Lacks an item that it must contain');
    }
    if (schema['uniqueItems'] === true) {
      const texts = value.map((item) => JSON.stringify(sorted(item)));
      if (new Set(texts).size < texts.length) return this.#wrong(path, 'Has an item twice');
    }
    return fitting.every(Boolean);
  }

  #object(schema: JsonSchema, value: JsonSchema, path: Path): boolean {
    const known = isObject(schema['properties']) ? schema['properties'] : {};
    const { additionalProperties: others, propertyNames } = schema;
    let fits = true;
    for (const name of listOf(schema['required'])) {
      if (typeof name === 'string' && !Object.hasOwn(value, name)) {
        fits = this.#wrong([...path, name], 'Required');
      }
    }
    // Which of the rest a pattern would have named is not known, so that nothing is held against it.
    const open = schema['patternProperties'] !== undefined;
    for (const [name, inner] of Object.entries(value)) {
      const at = [...path, name];
      if (Object.hasOwn(known, name)) fits = this.value(known[name], inner, at) && fits;
      else if (others === false && !open) fits = this.#wrong(at, 'Unknown field');
      else if (others !== undefined && !open) fits = this.value(others, inner, at) && fits;
      if (propertyNames !== undefined) fits = this.value(propertyNames, name, at) && fits;
    }
    return fits;
  }
}

interface Bound {
  readonly word: string;
  readonly holds: (bound: number) => boolean;
}

function boundsOf(value: unknown): readonly Bound[] {
  if (typeof value === 'number') {
    return [
      { word: 'minimum', holds: (bound) => value >= bound },
      { word: 'maximum', holds: (bound) => value <= bound },
      { word: 'exclusiveMinimum', holds: (bound) => value > bound },
      { word: 'exclusiveMaximum', holds: (bound) => value < bound },
      { word: 'multipleOf', holds: (bound) => isMultiple(value, bound) },
    ];
  }
  if (typeof value === 'string') return sizes('Length', Array.from(value).length);
  if (Array.isArray(value)) return sizes('Items', value.length);
  return isObject(value) ? sizes('Properties', Object.keys(value).length) : [];
}

function sizes(of: string, size: number): readonly Bound[] {
  return [
    { word: `min${of}`, holds: (bound) => size >= bound },
    { word: `max${of}`, holds: (bound) => size <= bound },
  ];
}

function isMultiple(value: number, of: number): boolean {
  const times = value / of;
  return Math.abs(times - Math.round(times)) < 1e-9;
}

/** The place that a reference within the schema names; undefined if there is none. */
export function resolveRef(root: JsonSchema, ref: string): unknown {
  if (ref === '#') return root;
  if (!ref.startsWith('#/')) return undefined;
  let place: unknown = root;
  for (const step of ref.slice(2).split('/')) {
    const key = decoded(step).replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof place !== 'object' || place === null || !Object.hasOwn(place, key)) return undefined;
    place = (place as JsonSchema)[key];
  }
  return place;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function isOfType(type: unknown, value: unknown): boolean {
  if (Array.isArray(type)) return type.some((one) => isOfType(one, value));
  switch (type) {
    case 'object':
      return isObject(value);
    case 'array':
      return Array.isArray(value);
    case 'null':
      return value === null;
    case 'integer':
      return Number.isInteger(value);
    case 'string':
    case 'number':
    case 'boolean':
      return typeof value === type;
    default:
      return true;
  }
}

function typeWords(type: unknown): string {
  return listOf(Array.isArray(type) ? type : [type]).join(' or ');
}

function isObject(value: unknown): value is JsonSchema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function isSame(a: unknown, b: unknown): boolean {
  if (typeof a !== 'object' || typeof b !== 'object') return a === b;
  return JSON.stringify(sorted(a)) === JSON.stringify(sorted(b));
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, inner]) => [key, sorted(inner)]),
  );
}
