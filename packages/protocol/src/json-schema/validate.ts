/**
 * Validates a value against an untrusted JSON Schema at a bounded cost.
 *
 * A hostile schema could take forever, by backtracking patterns or nested alternatives. Patterns are
 * therefore not evaluated (the tool itself has to check them), and every schema application, name, item
 * and string length counts against a budget. A value that exhausts the budget is rejected. Only the
 * first issues are reported. `format` is an annotation, and unknown keywords are ignored.
 */
import { canonicalJson } from '../schemas/canonical.ts';
import type { FieldIssue } from '../errors.ts';
import { childPath, isObject, type JsonSchema, resolveRef } from './schema.ts';

const budget = 100_000;
const maxIssues = 20;
/** So many characters cost one step of the budget, as does applying one schema. */
const charsPerStep = 256;

/** The first issues of a value. The schema must have passed `checkSchema`. */
export function issuesOfValue(schema: JsonSchema, value: unknown): readonly FieldIssue[] {
  const issues = new IssueList(maxIssues);
  try {
    new Validator(schema).check(schema, { value, path: '' }, issues);
  } catch (error) {
    if (!(error instanceof BudgetExhausted)) throw error;
    return [{ path: '', message: 'Too complex to check against its schema' }];
  }
  return issues.issues;
}

/** The issues of an answer that has to be JSON. */
export function issuesOfAnswer(schema: JsonSchema, answer: string): readonly FieldIssue[] {
  try {
    return issuesOfValue(schema, JSON.parse(answer));
  } catch (error) {
    if (error instanceof SyntaxError) return [{ path: '', message: 'Not valid JSON' }];
    throw error;
  }
}

class BudgetExhausted extends Error {}

class IssueList {
  readonly issues: FieldIssue[] = [];
  readonly #limit: number;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get full(): boolean {
    return this.issues.length >= this.#limit;
  }

  add(path: string, message: string): void {
    const isKnown = this.issues.some((known) => known.path === path && known.message === message);
    if (!this.full && !isKnown) this.issues.push({ path, message });
  }
}

/** A value and its path within the value being validated. */
interface Located<Value = unknown> {
  readonly value: Value;
  readonly path: string;
}

class Validator {
  readonly #root: JsonSchema;
  #left = budget;
  /** References being followed, each with the path of the value: one that recurs adds no issue. */
  readonly #following = new Set<string>();
  readonly #canonical = new Map<unknown, string>();
  readonly #lengths = new Map<string, number>();

  constructor(root: JsonSchema) {
    this.#root = root;
  }

  check(schema: unknown, at: Located, issues: IssueList): void {
    this.#spend(1);
    if (issues.full) return;
    if (schema === false) issues.add(at.path, 'Not allowed');
    if (!isObject(schema)) return;
    this.#reference(schema, at, issues);
    checkType(schema, at, issues);
    this.#fixed(schema, at, issues);
    this.#combined(schema, at, issues);
    const { value, path } = at;
    if (isObject(value)) this.#members(schema, { value, path }, issues);
    else if (Array.isArray(value)) this.#items(schema, { value, path }, issues);
    else if (typeof value === 'string') this.#length(schema, { value, path }, issues);
    else if (typeof value === 'number') checkRange(schema, { value, path }, issues);
  }

  #spend(steps: number): void {
    this.#left -= steps;
    if (this.#left < 0) throw new BudgetExhausted();
  }

  #matches(schema: unknown, at: Located): boolean {
    const issues = new IssueList(1);
    this.check(schema, at, issues);
    return !issues.full;
  }

  #reference(schema: JsonSchema, at: Located, issues: IssueList): void {
    const ref = schema['$ref'];
    if (typeof ref !== 'string') return;
    const key = `${ref} ${at.path}`;
    if (this.#following.has(key)) return;
    this.#following.add(key);
    try {
      this.check(resolveRef(this.#root, ref), at, issues);
    } finally {
      this.#following.delete(key);
    }
  }

  #fixed(schema: JsonSchema, { value, path }: Located, issues: IssueList): void {
    const { enum: allowed } = schema;
    if (Array.isArray(allowed)) {
      this.#spend(allowed.length);
      if (!allowed.some((each) => this.#isSame(each, value))) {
        const named = allowed.map((each) => JSON.stringify(each)).join(', ');
        issues.add(path, `Must be one of ${named.slice(0, 500)}`);
      }
    }
    if (Object.hasOwn(schema, 'const') && !this.#isSame(schema['const'], value)) {
      issues.add(path, `Must be ${JSON.stringify(schema['const']).slice(0, 500)}`);
    }
  }

  #isSame(a: unknown, b: unknown): boolean {
    if (a === b) return true;
    const both = typeof a === 'object' && typeof b === 'object' && a !== null && b !== null;
    return both && this.#canonicalText(a) === this.#canonicalText(b);
  }

  /** Cached: a large value may be compared often. */
  #canonicalText(value: unknown): string {
    if (typeof value !== 'object') return canonicalJson(value);
    const known = this.#canonical.get(value);
    if (known !== undefined) return known;
    const text = canonicalJson(value);
    this.#spend(Math.ceil(text.length / charsPerStep));
    this.#canonical.set(value, text);
    return text;
  }

  #combined(schema: JsonSchema, at: Located, issues: IssueList): void {
    const { path } = at;
    for (const each of listOf(schema['allOf'])) this.check(each, at, issues);
    const { anyOf, oneOf, not } = schema;
    if (anyOf !== undefined && !listOf(anyOf).some((each) => this.#matches(each, at))) {
      issues.add(path, 'Matches none of the alternatives');
    }
    if (oneOf !== undefined) {
      const matchCount = listOf(oneOf).filter((each) => this.#matches(each, at)).length;
      if (matchCount === 0) issues.add(path, 'Matches none of the alternatives');
      if (matchCount > 1) issues.add(path, 'Matches more than one of the alternatives');
    }
    if (not !== undefined && this.#matches(not, at))
      issues.add(path, 'Matches the schema under "not"');
    if (schema['if'] !== undefined) {
      const branch = this.#matches(schema['if'], at) ? schema['then'] : schema['else'];
      this.check(branch, at, issues);
    }
  }

  #members(schema: JsonSchema, { value, path }: Located<JsonSchema>, issues: IssueList): void {
    const required = listOf(schema['required']);
    const names = Object.keys(value);
    this.#spend(required.length + Math.ceil(names.length / charsPerStep));
    for (const name of required) {
      if (typeof name === 'string' && !Object.hasOwn(value, name)) {
        issues.add(childPath(path, name), 'Required');
      }
    }
    checkCount(schema, 'Properties', names.length, path, issues);
    const { properties, propertyNames, additionalProperties: rest } = schema;
    const known = isObject(properties) ? properties : {};
    // Patterns are not evaluated, so the names that they do not cover are unknown.
    const isOpen = schema['patternProperties'] !== undefined;
    if (propertyNames === undefined && properties === undefined && (isOpen || rest === undefined)) {
      return;
    }
    for (const name of names) {
      if (issues.full) return;
      const at = { value: value[name], path: childPath(path, name) };
      if (propertyNames !== undefined && !this.#matches(propertyNames, { value: name, path })) {
        issues.add(at.path, 'Not allowed');
      }
      if (Object.hasOwn(known, name)) this.check(known[name], at, issues);
      else if (!isOpen && rest === false) issues.add(at.path, 'Unknown field');
      else if (!isOpen && rest !== undefined) this.check(rest, at, issues);
    }
  }

  #items(schema: JsonSchema, at: Located<readonly unknown[]>, issues: IssueList): void {
    const { value, path } = at;
    checkCount(schema, 'Items', value.length, path, issues);
    const first = listOf(schema['prefixItems']);
    const { items, contains } = schema;
    const checked = items === undefined ? value.slice(0, first.length) : value;
    for (const [index, item] of checked.entries()) {
      if (issues.full) return;
      const by = index < first.length ? first[index] : items;
      this.check(by, { value: item, path: `${path}[${index}]` }, issues);
    }
    const isMatch = (item: unknown) => this.#matches(contains, { value: item, path });
    if (contains !== undefined && !value.some(isMatch)) {
      issues.add(path, 'Must contain an item that matches "contains"');
    }
    if (schema['uniqueItems'] === true) {
      this.#spend(value.length);
      const different = new Set(value.map((item) => this.#canonicalText(item)));
      if (different.size < value.length) issues.add(path, 'Items must be unique');
    }
  }

  #length(schema: JsonSchema, { value, path }: Located<string>, issues: IssueList): void {
    if (schema['minLength'] === undefined && schema['maxLength'] === undefined) return;
    const count = this.#lengths.get(value) ?? this.#countCharacters(value);
    checkCount(schema, 'Length', count, path, issues);
  }

  /** Cached: the same string may be measured often. */
  #countCharacters(text: string): number {
    this.#spend(Math.ceil(text.length / charsPerStep));
    let count = 0;
    for (let at = 0; at < text.length; count += 1)
      at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
    this.#lengths.set(text, count);
    return count;
  }
}

function checkType(schema: JsonSchema, { value, path }: Located, issues: IssueList): void {
  const { type } = schema;
  if (type === undefined) return;
  const names = Array.isArray(type) ? (type as string[]) : [type as string];
  if (!names.some((name) => isOfType(name, value)))
    issues.add(path, `Must be ${names.join(' or ')}`);
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

const units = { Length: 'characters', Items: 'items', Properties: 'properties' } as const;

function checkCount(
  schema: JsonSchema,
  of: keyof typeof units,
  count: number,
  path: string,
  issues: IssueList,
): void {
  const [least, most] = [schema[`min${of}`], schema[`max${of}`]];
  if (typeof least === 'number' && count < least) {
    issues.add(path, `Must have at least ${least} ${units[of]}`);
  }
  if (typeof most === 'number' && count > most) {
    issues.add(path, `Must have at most ${most} ${units[of]}`);
  }
}

const bounds = [
  ['minimum', 'at least', (value: number, bound: number) => value >= bound],
  ['maximum', 'at most', (value: number, bound: number) => value <= bound],
  ['exclusiveMinimum', 'greater than', (value: number, bound: number) => value > bound],
  ['exclusiveMaximum', 'less than', (value: number, bound: number) => value < bound],
  ['multipleOf', 'a multiple of', isMultiple],
] as const;

function checkRange(schema: JsonSchema, { value, path }: Located<number>, issues: IssueList): void {
  for (const [name, words, holds] of bounds) {
    const bound = schema[name];
    if (typeof bound === 'number' && !holds(value, bound)) {
      issues.add(path, `Must be ${words} ${bound}`);
    }
  }
}

/** Tolerates rounding: 0.3 is a multiple of 0.1. */
function isMultiple(value: number, of: number): boolean {
  const quotient = value / of;
  return Math.abs(quotient - Math.round(quotient)) < 1e-9 * Math.max(1, Math.abs(quotient));
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
