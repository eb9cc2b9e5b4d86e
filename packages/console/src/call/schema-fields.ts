/**
 * Which field edits a value of a JSON Schema, and how its text becomes a value again.
 *
 * Types are kept: a number field only ever gives numbers, a text field only texts. What a schema says in a
 * way that no field has is edited as JSON. An absent value is `undefined`, which differs from an empty one.
 */
import { splitMisleading } from '@relay/protocol/display';
import {
  canonicalJson,
  type FieldIssue,
  isObject,
  issuesOfValue,
  type JsonSchema,
  resolveRef,
} from '@relay/protocol/wire';
import { parseExactly } from '../text/exact-json.ts';
import { jsonText } from '../text/json-rows.ts';

export type Field =
  /** One of some values: an `enum`, a `const`, a boolean, null. */
  | { readonly kind: 'choice'; readonly options: readonly Option[] }
  | { readonly kind: 'text'; readonly isLong: boolean; readonly format: string | undefined }
  | { readonly kind: 'number'; readonly isInteger: boolean }
  | { readonly kind: 'list'; readonly items: unknown }
  | {
      readonly kind: 'group';
      readonly properties: readonly Property[];
      /** The schema of properties that it does not name; undefined if it has no others. */
      readonly others: unknown;
    }
  | { readonly kind: 'variants'; readonly variants: readonly Variant[] }
  | { readonly kind: 'json' };

export interface Option {
  readonly label: string;
  readonly value: unknown;
}

export interface Property {
  readonly name: string;
  readonly schema: unknown;
  readonly isRequired: boolean;
}

export interface Variant {
  readonly label: string;
  readonly schema: JsonSchema;
}

const maxReferences = 20;

/** The schema with its reference followed. */
export function resolved(schema: unknown, root: JsonSchema): JsonSchema {
  let found = schema;
  for (let count = 0; count < maxReferences; count += 1) {
    if (!isObject(found) || typeof found['$ref'] !== 'string') break;
    const { $ref, ...own } = found;
    const target = resolveRef(root, $ref);
    found = isObject(target) ? { ...target, ...own } : own;
  }
  return isObject(found) ? found : {};
}

/** A field of the value's own type is needed only for texts: they may be longer than the schema tells. */
export function fieldOf(schema: JsonSchema, root: JsonSchema): Field {
  const { type, enum: allowed, anyOf, oneOf } = schema;
  if (Object.hasOwn(schema, 'const')) return choice([schema['const']]);
  if (Array.isArray(allowed)) return choice(allowed);
  const alternatives = Array.isArray(oneOf) ? oneOf : anyOf;
  if (Array.isArray(alternatives)) return alternativesOf(schema, alternatives, root);
  if (schema['allOf'] !== undefined || schema['prefixItems'] !== undefined) return { kind: 'json' };
  if (Array.isArray(type)) {
    const variants = type.map((each: unknown) => ({
      label: typeName(each),
      schema: { ...schema, type: each },
    }));
    const [only] = variants;
    return variants.length === 1 && only !== undefined
      ? fieldOf(only.schema, root)
      : { kind: 'variants', variants };
  }
  switch (type ?? impliedType(schema)) {
    case 'string': {
      const { format, maxLength } = schema;
      const isLong = typeof maxLength !== 'number' || maxLength > 100;
      return { kind: 'text', isLong, format: typeof format === 'string' ? format : undefined };
    }
    case 'number':
      return { kind: 'number', isInteger: false };
    case 'integer':
      return { kind: 'number', isInteger: true };
    case 'boolean':
      return choice([true, false]);
    case 'null':
      return choice([null]);
    case 'array':
      return { kind: 'list', items: schema['items'] ?? {} };
    case 'object':
      return groupOf(schema);
    default:
      return { kind: 'json' };
  }
}

function impliedType(schema: JsonSchema): string | undefined {
  if (isObject(schema['properties'])) return 'object';
  return isObject(schema['items']) ? 'array' : undefined;
}

function groupOf(schema: JsonSchema): Field {
  const { properties, required, additionalProperties, patternProperties } = schema;
  const names = Array.isArray(required) ? (required as unknown[]) : [];
  const isClosed = additionalProperties === false && patternProperties === undefined;
  if (isObject(properties) && Object.keys(properties).length > maxItems) return { kind: 'json' };
  return {
    kind: 'group',
    properties: Object.entries(isObject(properties) ? properties : {}).map(([name, each]) => ({
      name,
      schema: each,
      isRequired: names.includes(name),
    })),
    others: isClosed ? undefined : (additionalProperties ?? {}),
  };
}

function choice(values: readonly unknown[]): Field {
  return {
    kind: 'choice',
    options: values.map((value) => ({
      label: typeof value === 'string' ? value : canonicalJson(value),
      value,
    })),
  };
}

function alternativesOf(
  schema: JsonSchema,
  alternatives: readonly unknown[],
  root: JsonSchema,
): Field {
  const { anyOf: _any, oneOf: _one, ...shared } = schema;
  const variants = alternatives.map((each, index) => {
    const own = resolved(each, root);
    const { title, type } = own;
    const label =
      typeof title === 'string'
        ? title
        : typeof type === 'string'
          ? typeName(type)
          : `Alternative ${index + 1}`;
    return { label, schema: { ...shared, ...own } };
  });
  // An enum whose values have titles.
  if (variants.length > 0 && variants.every((each) => Object.hasOwn(each.schema, 'const'))) {
    const options = variants.map(({ label, schema: own }) => ({
      label: typeof own['title'] === 'string' ? label : labelOf(own['const']),
      value: own['const'],
    }));
    return { kind: 'choice', options };
  }
  return { kind: 'variants', variants };
}

function labelOf(value: unknown): string {
  return typeof value === 'string' ? value : canonicalJson(value);
}

function typeName(type: unknown): string {
  switch (type) {
    case 'string':
      return 'Text';
    case 'number':
      return 'Number';
    case 'integer':
      return 'Whole number';
    case 'boolean':
      return 'Yes or no';
    case 'null':
      return 'Nothing (null)';
    case 'array':
      return 'List';
    case 'object':
      return 'Fields';
    default:
      return String(type);
  }
}

/** What keeps a value from being sent. */
export function issuesOf(schema: JsonSchema, value: unknown): readonly FieldIssue[] {
  try {
    return issuesOfValue(schema, value);
  } catch {
    // It exceeds the stack.
    return [{ path: '', message: 'Nested too deeply to be checked' }];
  }
}

/** The first variant that the value matches, else the first one of its type, else the first. */
export function variantOf(variants: readonly Variant[], value: unknown, root: JsonSchema): number {
  if (value === undefined) return 0;
  const { $defs, definitions } = root;
  const matching = variants.findIndex(
    ({ schema }) => issuesOf({ ...schema, $defs, definitions }, value).length === 0,
  );
  if (matching >= 0) return matching;
  const ofType = variants.findIndex(({ schema }) => accepts(fieldOf(schema, root), value));
  return Math.max(0, ofType);
}

/** Whether a field can show a value as it is. What it cannot show is edited as JSON. */
export function accepts(field: Field, value: unknown): boolean {
  if (value === undefined) return true;
  switch (field.kind) {
    case 'choice':
      return field.options.some((option) => isSame(option.value, value));
    case 'text':
      return typeof value === 'string' && canBeTyped(value);
    case 'number':
      return typeof value === 'number';
    case 'list':
      return Array.isArray(value) && value.length <= maxItems;
    case 'group':
      return isObject(value) && Object.keys(value).length <= maxItems;
    case 'variants':
    case 'json':
      return true;
  }
}

/** More fields than these are edited as JSON. */
const maxItems = 100;

/** A text field would show hidden characters as nothing, and replaces carriage returns. */
function canBeTyped(text: string): boolean {
  return splitMisleading(text).every((piece) => typeof piece === 'string');
}

export function isSame(a: unknown, b: unknown): boolean {
  if (a === undefined || b === undefined) return a === b;
  return canonicalJson(a) === canonicalJson(b);
}

/** A value to start with when a part is added: the default, or one without any content. */
export function startValue(schema: JsonSchema, root: JsonSchema): unknown {
  if (schema['default'] !== undefined) return schema['default'];
  const field = fieldOf(schema, root);
  switch (field.kind) {
    case 'choice':
      return field.options[0]?.value ?? null;
    case 'text':
      return '';
    case 'number':
      return 0;
    case 'list':
      return [];
    case 'group':
      return {};
    case 'variants': {
      const [first] = field.variants;
      return first === undefined ? null : startValue(first.schema, root);
    }
    case 'json':
      return null;
  }
}

export type Parsed =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly problem: string };

const number = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;

/** An empty text is no number: the field is absent. */
export function parseNumber(text: string): Parsed {
  const trimmed = text.trim();
  if (trimmed === '') return { ok: true, value: undefined };
  if (!number.test(trimmed)) return { ok: false, problem: 'Enter a number, such as 12 or 1.5' };
  const value = Number(trimmed);
  if (!Number.isFinite(value)) return { ok: false, problem: 'The number is too large' };
  if (Number.isInteger(value) && !Number.isSafeInteger(value) && /^[+-]?\d+$/.test(trimmed)) {
    // `JSON.parse` would round it as well. What a number is written as comes back as that number.
    const digits = trimmed.replace('+', '');
    if (BigInt(value) !== BigInt(digits) && String(value) !== digits) {
      return { ok: false, problem: 'The number has too many digits to be kept exactly' };
    }
  }
  return { ok: true, value };
}

export function formatNumber(value: unknown): string {
  return typeof value === 'number' ? String(value) : '';
}

export function parseJson(text: string): Parsed {
  if (text.trim() === '') return { ok: true, value: undefined };
  try {
    return { ok: true, value: parseExactly(text) };
  } catch (error) {
    return { ok: false, problem: `Not valid JSON: ${(error as Error).message}` };
  }
}

/** Misleading characters as escape sequences, so that they can be seen and removed. */
export function formatJson(value: unknown): string {
  if (value === undefined) return '';
  return splitMisleading(jsonText(value))
    .map((piece) => (typeof piece === 'string' ? piece : escapeUnits(piece.char)))
    .join('');
}

function escapeUnits(char: string): string {
  let escaped = '';
  for (let at = 0; at < char.length; at += 1) {
    escaped += `\\u${char.charCodeAt(at).toString(16).padStart(4, '0')}`;
  }
  return escaped;
}

/** The value with one property changed; undefined removes it. The others keep their order. */
export function withProperty(value: unknown, name: string, next: unknown): JsonSchema {
  const entries = Object.entries(isObject(value) ? value : {});
  const at = entries.findIndex(([each]) => each === name);
  if (next === undefined) entries.splice(at, at < 0 ? 0 : 1);
  else if (at < 0) entries.push([name, next]);
  else entries[at] = [name, next];
  return Object.fromEntries(entries);
}
