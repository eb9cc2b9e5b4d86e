/**
 * Checks a value by a JSON Schema that somebody else wrote, at a bounded cost.
 *
 * A schema can be made to take for ever: by patterns that backtrack, by alternatives that refer to
 * alternatives. So patterns are not evaluated (whoever runs the tool has the last word about them),
 * and every schema that is applied counts against a budget; a value on which it is used up is refused.
 * `format` is a remark, as the standard says. What is not known is ignored.
 */
import type { FieldIssue } from '../errors.ts';
import { canonicalJson } from '../canonical.ts';
import { isObject, resolveRef, type JsonSchema } from './schema.ts';

const budget = 100_000;
const maxIssues = 20;

/** What is wrong with a value, the first few things; the schema must have passed `checkSchema`. */
export function issuesOfValue(schema: JsonSchema, value: unknown): readonly FieldIssue[] {
  try {
    return new Checking(schema).issuesOf(schema, value, '').slice(0, maxIssues);
  } catch (error) {
    if (!(error instanceof BudgetSpent)) throw error;
    return [{ path: '', message: 'Is too laborious to check by its schema' }];
  }
}

class BudgetSpent extends Error {}

type Keyword = (schema: JsonSchema, value: unknown, path: string) => FieldIssue[];

class Checking {
  readonly #root: JsonSchema;
  #left = budget;
  /** References that are being followed at this place: one that comes round again says nothing new. */
  readonly #following = new Set<string>();
  readonly #canonical = new Map<unknown, string>();

  constructor(root: JsonSchema) {
    this.#root = root;
  }

  issuesOf(schema: unknown, value: unknown, path: string): FieldIssue[] {
    this.#spend(1);
    if (schema === false) return [{ path, message: 'Is not allowed' }];
    if (!isObject(schema)) return [];
    return [
      ...this.#reference(schema, value, path),
      ...typeIssues(schema, value, path),
      ...this.#fixed(schema, value, path),
      ...this.#combined(schema, value, path),
      ...(isObject(value) ? this.#members(schema, value, path) : []),
      ...(Array.isArray(value) ? this.#items(schema, value, path) : []),
      ...(typeof value === 'string' ? lengthIssues(schema, value, path) : []),
      ...(typeof value === 'number' ? rangeIssues(schema, value, path) : []),
    ];
  }

  #spend(steps: number): void {
    this.#left -= steps;
    if (this.#left < 0) throw new BudgetSpent();
  }

  #matches(schema: unknown, value: unknown, path: string): boolean {
    return this.issuesOf(schema, value, path).length === 0;
  }

  #fixed: Keyword = (schema, value, path) => {
    const issues: FieldIssue[] = [];
    const { enum: allowed } = schema;
    if (Array.isArray(allowed)) {
      this.#spend(allowed.length);
      if (!allowed.some((each) => this.#isSame(each, value))) {
        const named = allowed.map((each) => JSON.stringify(each)).join(', ');
        issues.push({ path, message: `Must be one of ${named.slice(0, 500)}` });
      }
    }
    if (Object.hasOwn(schema, 'const') && !this.#isSame(schema['const'], value)) {
      issues.push({ path, message: `Must be ${JSON.stringify(schema['const']).slice(0, 500)}` });
    }
    return issues;
  };

  #isSame(a: unknown, b: unknown): boolean {
    if (a === b) return true;
    const both = typeof a === 'object' && typeof b === 'object' && a !== null && b !== null;
    return both && this.#written(a) === this.#written(b);
  }

  /** Written out once: a large value may be compared often. */
  #written(value: unknown): string {
    if (typeof value !== 'object') return canonicalJson(value);
    const text = this.#canonical.get(value) ?? canonicalJson(value);
    this.#canonical.set(value, text);
    return text;
  }

  #reference: Keyword = (schema, value, path) => {
    const ref = schema['$ref'];
    if (typeof ref !== 'string') return [];
    const place = `${ref} ${path}`;
    if (this.#following.has(place)) return [];
    this.#following.add(place);
    try {
      return this.issuesOf(resolveRef(this.#root, ref), value, path);
    } finally {
      this.#following.delete(place);
    }
  };

  #combined: Keyword = (schema, value, path) => {
    const issues: FieldIssue[] = [];
    for (const each of listOf(schema['allOf'])) issues.push(...this.issuesOf(each, value, path));
    const { anyOf, oneOf, not } = schema;
    if (anyOf !== undefined && !listOf(anyOf).some((each) => this.#matches(each, value, path))) {
      issues.push({ path, message: 'Fits none of the alternatives' });
    }
    if (oneOf !== undefined) {
      const fitting = listOf(oneOf).filter((each) => this.#matches(each, value, path)).length;
      const message = fitting === 0 ? 'Fits none of the alternatives' : 'Fits several alternatives';
      if (fitting !== 1) issues.push({ path, message });
    }
    if (not !== undefined && this.#matches(not, value, path)) {
      issues.push({ path, message: 'Is what must not be' });
    }
    if (schema['if'] !== undefined) {
      const branch = this.#matches(schema['if'], value, path) ? schema['then'] : schema['else'];
      issues.push(...this.issuesOf(branch, value, path));
    }
    return issues;
  };

  #members(schema: JsonSchema, value: JsonSchema, path: string): FieldIssue[] {
    const issues: FieldIssue[] = [];
    const properties = isObject(schema['properties']) ? schema['properties'] : {};
    const names = Object.keys(value);
    for (const name of listOf(schema['required'])) {
      if (typeof name === 'string' && !Object.hasOwn(value, name)) {
        issues.push({ path: below(path, name), message: 'Is missing' });
      }
    }
    issues.push(
      ...countIssues(names.length, { schema, path, of: 'Properties', unit: 'parameters' }),
    );
    const { propertyNames } = schema;
    for (const name of names) {
      if (propertyNames !== undefined && !this.#matches(propertyNames, name, path)) {
        issues.push({ path: below(path, name), message: 'Is not allowed' });
      }
      const known = Object.hasOwn(properties, name);
      if (known) issues.push(...this.issuesOf(properties[name], value[name], below(path, name)));
      // Which names a pattern covers is not evaluated, so the rest is not known either.
      else if (schema['patternProperties'] === undefined) {
        const rest = schema['additionalProperties'];
        if (rest === false) issues.push({ path: below(path, name), message: 'Is not known' });
        else issues.push(...this.issuesOf(rest, value[name], below(path, name)));
      }
    }
    return issues;
  }

  #items(schema: JsonSchema, value: readonly unknown[], path: string): FieldIssue[] {
    const issues = countIssues(value.length, { schema, path, of: 'Items', unit: 'items' });
    const first = listOf(schema['prefixItems']);
    for (const [index, item] of value.entries()) {
      const by = index < first.length ? first[index] : schema['items'];
      issues.push(...this.issuesOf(by, item, `${path}[${index}]`));
      if (issues.length > maxIssues) return issues;
    }
    const { contains } = schema;
    if (contains !== undefined && !value.some((item) => this.#matches(contains, item, path))) {
      issues.push({ path, message: 'Lacks an item that it must contain' });
    }
    if (schema['uniqueItems'] === true) {
      this.#spend(value.length);
      const different = new Set(value.map((item) => this.#written(item)));
      if (different.size < value.length) issues.push({ path, message: 'Holds something twice' });
    }
    return issues;
  }
}

function typeIssues(schema: JsonSchema, value: unknown, path: string): FieldIssue[] {
  const { type } = schema;
  if (type === undefined) return [];
  const names = Array.isArray(type) ? (type as string[]) : [type as string];
  if (names.some((name) => isOfType(name, value))) return [];
  return [{ path, message: `Must be ${names.join(' or ')}` }];
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

function lengthIssues(schema: JsonSchema, value: string, path: string): FieldIssue[] {
  if (schema['minLength'] === undefined && schema['maxLength'] === undefined) return [];
  return countIssues(Array.from(value).length, { schema, path, of: 'Length', unit: 'characters' });
}

interface Counted {
  readonly schema: JsonSchema;
  readonly path: string;
  readonly of: 'Length' | 'Items' | 'Properties';
  readonly unit: string;
}

function countIssues(count: number, { schema, path, of, unit }: Counted): FieldIssue[] {
  const issues: FieldIssue[] = [];
  const [least, most] = [schema[`min${of}`], schema[`max${of}`]];
  if (typeof least === 'number' && count < least) {
    issues.push({ path, message: `Must have at least ${least} ${unit}` });
  }
  if (typeof most === 'number' && count > most) {
    issues.push({ path, message: `Must have at most ${most} ${unit}` });
  }
  return issues;
}

const bounds = [
  ['minimum', 'at least', (value: number, bound: number) => value >= bound],
  ['maximum', 'at most', (value: number, bound: number) => value <= bound],
  ['exclusiveMinimum', 'above', (value: number, bound: number) => value > bound],
  ['exclusiveMaximum', 'below', (value: number, bound: number) => value < bound],
  ['multipleOf', 'a multiple of', isMultiple],
] as const;

function rangeIssues(schema: JsonSchema, value: number, path: string): FieldIssue[] {
  return bounds.flatMap(([name, words, holds]) => {
    const bound = schema[name];
    if (typeof bound !== 'number' || holds(value, bound)) return [];
    return [{ path, message: `Must be ${words} ${bound}` }];
  });
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
