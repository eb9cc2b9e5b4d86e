/**
 * Checks a value by a JSON Schema that somebody else wrote, at a bounded cost.
 *
 * A schema can be made to take for ever: by patterns that backtrack, by alternatives that refer to
 * alternatives. So patterns are not evaluated (whoever runs the tool has the last word about them),
 * and whatever is looked at counts against a budget: schemas that are applied, names, items and the
 * length of texts. A value on which it is used up is refused. Of what is wrong, the first few things
 * are told. `format` is a remark, as the standard says. What is not known is ignored.
 */
import { canonicalJson } from '../schemas/canonical.ts';
import type { FieldIssue } from '../errors.ts';
import { isObject, type JsonSchema, resolveRef } from './schema.ts';

const budget = 100_000;
const maxIssues = 20;
/** So many characters cost as much as one schema that is applied. */
const charsAStep = 256;

/** What is wrong with a value, the first few things; the schema must have passed `checkSchema`. */
export function issuesOfValue(schema: JsonSchema, value: unknown): readonly FieldIssue[] {
  const found = new Findings(maxIssues);
  try {
    new Checking(schema).check(schema, { value, path: '' }, found);
  } catch (error) {
    if (!(error instanceof BudgetSpent)) throw error;
    return [{ path: '', message: 'Is too laborious to check by its schema' }];
  }
  return found.issues;
}

class BudgetSpent extends Error {}

class Findings {
  readonly issues: FieldIssue[] = [];
  readonly #limit: number;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get full(): boolean {
    return this.issues.length >= this.#limit;
  }

  add(path: string, message: string): void {
    if (
      this.full ||
      this.issues.some((known) => known.path === path && known.message === message)
    ) {
      return;
    }
    this.issues.push({ path, message });
  }
}

/** A value and its place in what is checked. */
interface Placed<Value = unknown> {
  readonly value: Value;
  readonly path: string;
}

class Checking {
  readonly #root: JsonSchema;
  #left = budget;
  /** References that are being followed at this place: one that comes round again says nothing new. */
  readonly #following = new Set<string>();
  readonly #canonical = new Map<unknown, string>();
  readonly #lengths = new Map<string, number>();

  constructor(root: JsonSchema) {
    this.#root = root;
  }

  check(schema: unknown, at: Placed, found: Findings): void {
    this.#spend(1);
    if (found.full) return;
    if (schema === false) found.add(at.path, 'Is not allowed');
    if (!isObject(schema)) return;
    this.#reference(schema, at, found);
    checkType(schema, at, found);
    this.#fixed(schema, at, found);
    this.#combined(schema, at, found);
    const { value, path } = at;
    if (isObject(value)) this.#members(schema, { value, path }, found);
    else if (Array.isArray(value)) this.#items(schema, { value, path }, found);
    else if (typeof value === 'string') this.#length(schema, { value, path }, found);
    else if (typeof value === 'number') checkRange(schema, { value, path }, found);
  }

  #spend(steps: number): void {
    this.#left -= steps;
    if (this.#left < 0) throw new BudgetSpent();
  }

  #matches(schema: unknown, at: Placed): boolean {
    const found = new Findings(1);
    this.check(schema, at, found);
    return !found.full;
  }

  #reference(schema: JsonSchema, at: Placed, found: Findings): void {
    const ref = schema['$ref'];
    if (typeof ref !== 'string') return;
    const place = `${ref} ${at.path}`;
    if (this.#following.has(place)) return;
    this.#following.add(place);
    try {
      this.check(resolveRef(this.#root, ref), at, found);
    } finally {
      this.#following.delete(place);
    }
  }

  #fixed(schema: JsonSchema, { value, path }: Placed, found: Findings): void {
    const { enum: allowed } = schema;
    if (Array.isArray(allowed)) {
      this.#spend(allowed.length);
      if (!allowed.some((each) => this.#isSame(each, value))) {
        const named = allowed.map((each) => JSON.stringify(each)).join(', ');
        found.add(path, `Must be one of ${named.slice(0, 500)}`);
      }
    }
    if (Object.hasOwn(schema, 'const') && !this.#isSame(schema['const'], value)) {
      found.add(path, `Must be ${JSON.stringify(schema['const']).slice(0, 500)}`);
    }
  }

  #isSame(a: unknown, b: unknown): boolean {
    if (a === b) return true;
    const both = typeof a === 'object' && typeof b === 'object' && a !== null && b !== null;
    return both && this.#written(a) === this.#written(b);
  }

  /** Written out once: a large value may be compared often. */
  #written(value: unknown): string {
    if (typeof value !== 'object') return canonicalJson(value);
    const known = this.#canonical.get(value);
    if (known !== undefined) return known;
    const text = canonicalJson(value);
    this.#spend(Math.ceil(text.length / charsAStep));
    this.#canonical.set(value, text);
    return text;
  }

  #combined(schema: JsonSchema, at: Placed, found: Findings): void {
    const { path } = at;
    for (const each of listOf(schema['allOf'])) this.check(each, at, found);
    const { anyOf, oneOf, not } = schema;
    if (anyOf !== undefined && !listOf(anyOf).some((each) => this.#matches(each, at))) {
      found.add(path, 'Fits none of the alternatives');
    }
    if (oneOf !== undefined) {
      const fitting = listOf(oneOf).filter((each) => this.#matches(each, at)).length;
      if (fitting === 0) found.add(path, 'Fits none of the alternatives');
      if (fitting > 1) found.add(path, 'Fits several alternatives');
    }
    if (not !== undefined && this.#matches(not, at)) found.add(path, 'Is what must not be');
    if (schema['if'] !== undefined) {
      const branch = this.#matches(schema['if'], at) ? schema['then'] : schema['else'];
      this.check(branch, at, found);
    }
  }

  #members(schema: JsonSchema, { value, path }: Placed<JsonSchema>, found: Findings): void {
    const required = listOf(schema['required']);
    const names = Object.keys(value);
    this.#spend(required.length + Math.ceil(names.length / charsAStep));
    for (const name of required) {
      if (typeof name === 'string' && !Object.hasOwn(value, name)) {
        found.add(below(path, name), 'Is missing');
      }
    }
    checkCount(names.length, { schema, path, of: 'Properties', unit: 'parameters' }, found);
    const { properties, propertyNames, additionalProperties: rest } = schema;
    const known = isObject(properties) ? properties : {};
    // Which names a pattern covers is not evaluated, so the rest is not known either.
    const isOpen = schema['patternProperties'] !== undefined;
    if (propertyNames === undefined && properties === undefined && (isOpen || rest === undefined)) {
      return;
    }
    for (const name of names) {
      if (found.full) return;
      const at = { value: value[name], path: below(path, name) };
      if (propertyNames !== undefined && !this.#matches(propertyNames, { value: name, path })) {
        found.add(at.path, 'Is not allowed');
      }
      if (Object.hasOwn(known, name)) this.check(known[name], at, found);
      else if (!isOpen && rest === false) found.add(at.path, 'Is not known');
      else if (!isOpen && rest !== undefined) this.check(rest, at, found);
    }
  }

  #items(schema: JsonSchema, at: Placed<readonly unknown[]>, found: Findings): void {
    const { value, path } = at;
    checkCount(value.length, { schema, path, of: 'Items', unit: 'items' }, found);
    const first = listOf(schema['prefixItems']);
    const { items, contains } = schema;
    const checked = items === undefined ? value.slice(0, first.length) : value;
    for (const [index, item] of checked.entries()) {
      if (found.full) return;
      const by = index < first.length ? first[index] : items;
      this.check(by, { value: item, path: `${path}[${index}]` }, found);
    }
    if (
      contains !== undefined &&
      !value.some((item) => this.#matches(contains, { value: item, path }))
    ) {
      found.add(path, 'Lacks an item that it must contain');
    }
    if (schema['uniqueItems'] === true) {
      this.#spend(value.length);
      const different = new Set(value.map((item) => this.#written(item)));
      if (different.size < value.length) found.add(path, 'Holds something twice');
    }
  }

  #length(schema: JsonSchema, { value, path }: Placed<string>, found: Findings): void {
    if (schema['minLength'] === undefined && schema['maxLength'] === undefined) return;
    const count = this.#lengths.get(value) ?? this.#countCharacters(value);
    checkCount(count, { schema, path, of: 'Length', unit: 'characters' }, found);
  }

  /** Counted once: the same text may be measured often. */
  #countCharacters(text: string): number {
    this.#spend(Math.ceil(text.length / charsAStep));
    let count = 0;
    for (let at = 0; at < text.length; count += 1)
      at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
    this.#lengths.set(text, count);
    return count;
  }
}

function checkType(schema: JsonSchema, { value, path }: Placed, found: Findings): void {
  const { type } = schema;
  if (type === undefined) return;
  const names = Array.isArray(type) ? (type as string[]) : [type as string];
  if (!names.some((name) => isOfType(name, value)))
    found.add(path, `Must be ${names.join(' or ')}`);
}

function isOfType(name: string, value: unknown): boolean {
  switch (name) {
    case 'object':
      return isObject(value);
    case 'array':
      return Array.isArray(value);
    case 'integer':
      return Number.isInteger(value);
    case 'null':
      return value === null;
    default:
      return typeof value === name;
  }
}

interface Counted {
  readonly schema: JsonSchema;
  readonly path: string;
  readonly of: 'Length' | 'Items' | 'Properties';
  readonly unit: string;
}

function checkCount(count: number, { schema, path, of, unit }: Counted, found: Findings): void {
  const [least, most] = [schema[`min${of}`], schema[`max${of}`]];
  if (typeof least === 'number' && count < least) {
    found.add(path, `Must have at least ${least} ${unit}`);
  }
  if (typeof most === 'number' && count > most) {
    found.add(path, `Must have at most ${most} ${unit}`);
  }
}

const bounds = [
  ['minimum', 'at least', (value: number, bound: number) => value >= bound],
  ['maximum', 'at most', (value: number, bound: number) => value <= bound],
  ['exclusiveMinimum', 'above', (value: number, bound: number) => value > bound],
  ['exclusiveMaximum', 'below', (value: number, bound: number) => value < bound],
  ['multipleOf', 'a multiple of', isMultiple],
] as const;

function checkRange(schema: JsonSchema, { value, path }: Placed<number>, found: Findings): void {
  for (const [name, words, holds] of bounds) {
    const bound = schema[name];
    if (typeof bound === 'number' && !holds(value, bound)) {
      found.add(path, `Must be ${words} ${bound}`);
    }
  }
}

/** 0.3 is a multiple of 0.1 for everyone but the machine. */
function isMultiple(value: number, of: number): boolean {
  const quotient = value / of;
  return Math.abs(quotient - Math.round(quotient)) < 1e-9 * Math.max(1, Math.abs(quotient));
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function below(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`;
}
