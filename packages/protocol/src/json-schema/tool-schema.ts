/**
 * The schema and the output of a tool, read in the same way in the library, the server and a client:
 * one tool definition works in all three.
 */
import { didYouMean } from '../display/nearest.ts';
import type { FieldIssue } from '../errors.ts';
import type { AttachmentPart } from '../schemas/messages.ts';
import { childPath, isObject, type JsonSchema } from './schema.ts';

/** The Standard Schema interface (zod, valibot, arktype, …). https://standardschema.dev */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => Standard<Output> | Promise<Standard<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
    /** Set if the library can convert its schemas to JSON Schema. */
    readonly jsonSchema?: { readonly input: (options: { target: string }) => object };
  };
}

interface Issue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

type Standard<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly Issue[] };

/** A schema of a library, or a plain JSON Schema. */
export type ToolSchema = StandardSchema | JsonSchema;

/** What a schema describes: what `execute` receives, or an answer. `any` if the compiler does not know it. */
export type ParsedInput<Schema extends ToolSchema> = ToolSchema extends Schema
  ? ReturnType<typeof JSON.parse>
  : Schema extends StandardSchema
    ? NonNullable<Schema['~standard']['types']>['output']
    : ObjectOf<Schema>;

/** A JSON Schema that the compiler does not know literally describes some object. */
type ObjectOf<Schema> = string extends keyof Schema ? Record<string, unknown> : FromJson<Schema>;

type FromJson<Schema> = Schema extends { readonly const: infer Value }
  ? Value
  : Schema extends { readonly enum: readonly (infer Value)[] }
    ? Value
    : Schema extends { readonly type: infer Type }
      ? OfType<Schema, Type>
      : unknown;

type OfType<Schema, Type> = Type extends 'string'
  ? string
  : Type extends 'number' | 'integer'
    ? number
    : Type extends 'boolean'
      ? boolean
      : Type extends 'null'
        ? null
        : Type extends 'array'
          ? Schema extends { readonly items: infer Item }
            ? FromJson<Item>[]
            : unknown[]
          : Schema extends { readonly properties: infer Properties }
            ? Flat<Fields<Properties, RequiredOf<Schema>>>
            : Record<string, unknown>;

type RequiredOf<Schema> = Schema extends { readonly required: readonly (infer Name)[] }
  ? Name
  : never;

type Fields<Properties, Required> = {
  -readonly [Name in keyof Properties as Name extends Required ? Name : never]: FromJson<
    Properties[Name]
  >;
} & {
  -readonly [Name in keyof Properties as Name extends Required ? never : Name]?: FromJson<
    Properties[Name]
  >;
};

type Flat<Type> = { [Name in keyof Type]: Type[Name] };

const definitionFields = [
  'name',
  'description',
  'schema',
  'inputSchema',
  'needsApproval',
  'allowedByDefault',
  'idempotent',
  'onUnknown',
  'kinds',
  'sensitive',
  'derivePermission',
  'timeoutMs',
  'execute',
];

/** What needs the process of the server: approvals depend on it, or the tool cannot work without it. */
export const serverToolFields = [
  'resolvePaths',
  'preview',
  'delegates',
  'needsMemory',
  'needsSession',
];

/** A misspelt `needsApproval` must not let a tool run unasked. */
export function checkToolFields(
  definition: { readonly name: string },
  more: readonly string[] = [],
): void {
  const known = [...definitionFields, ...more];
  const unknown = Object.keys(definition).find((field) => !known.includes(field));
  if (unknown === undefined) return;
  const hint = didYouMean(unknown, known);
  throw new TypeError(`The tool ${definition.name}: Unknown field ${unknown}${hint}`);
}

/** How rules match a parameter. */
export type ParameterKind = 'command' | 'path' | 'url' | 'text';

/** `context` and `attachments` are for the model, `result` is for programs. */
export interface ToolOutput {
  readonly context?: string | undefined;
  readonly result?: unknown;
  /** Images and files. A model that cannot read one receives a note that it was left out. */
  readonly attachments?: readonly AttachmentPart[] | undefined;
}

const outputFields = new Set(['context', 'result', 'attachments']);
const attachmentFields = new Set(['type', 'mediaType', 'data', 'url', 'filename']);

/** What a tool returned: an output, or a plain value, which is the result. */
export function toolOutputOf(returned: unknown): ToolOutput {
  return isToolOutput(returned) ? returned : { result: returned ?? null };
}

/** A tool’s own result can have fields with the same names: it must not fail, or lose a part. */
function isToolOutput(value: unknown): value is ToolOutput {
  if (!isObject(value) || !hasOnly(value, outputFields)) return false;
  const { context, attachments } = value;
  if (context !== undefined && typeof context !== 'string') return false;
  if (attachments === undefined) return Object.keys(value).length > 0;
  if (!Array.isArray(attachments) || !attachments.every(isAttachment)) return false;
  return attachments.length > 0 || context !== undefined || 'result' in value;
}

/** By its form only: the server validates its contents. */
function isAttachment(value: unknown): boolean {
  if (!isObject(value) || !hasOnly(value, attachmentFields)) return false;
  const { type, data, url } = value;
  return (type === 'image' || type === 'file') && typeof (data ?? url) === 'string';
}

function hasOnly(value: object, fields: ReadonlySet<string>): boolean {
  return Object.keys(value).every((field) => fields.has(field));
}

export type Validation =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly issues: readonly FieldIssue[] };

export interface ReadSchema {
  /** The JSON Schema for the model. */
  readonly inputSchema: JsonSchema;
  /** Never throws: an error in the schema refuses the arguments. */
  validate(input: unknown): Validation;
}

export interface SchemaToRead {
  readonly name: string;
  readonly schema: ToolSchema;
  /** Needed if the library of the schema cannot convert it to JSON Schema. */
  readonly inputSchema?: JsonSchema;
}

/** `issuesOf` validates a plain JSON Schema. A client has none: the server has validated the call. */
export function readToolSchema(
  {
    name,
    schema,
    inputSchema = jsonSchemaOf(schema, `of the tool ${name}`, '; pass inputSchema too'),
  }: SchemaToRead,
  issuesOf: (schema: JsonSchema, input: unknown) => readonly FieldIssue[],
): ReadSchema {
  const { $schema: _, ...plain } = inputSchema;
  if (plain['type'] !== 'object') throw new TypeError(`The tool ${name} must take an object`);
  return {
    inputSchema: plain,
    validate: (input) => {
      if (isStandard(schema)) return validated(schema, input);
      const issues = issuesOf(schema, input);
      return issues.length === 0 ? { ok: true, value: input } : { ok: false, issues };
    },
  };
}

/** The schema of the answer to a question, and what the tool receives for an answer that matches it. */
export function readAnswerSchema(schema: ToolSchema): {
  readonly schema: JsonSchema;
  readonly parse: (answer: unknown) => Validation;
} {
  const { $schema: _, ...plain } = jsonSchemaOf(schema, 'of the question');
  return {
    schema: plain,
    parse: (answer) =>
      isStandard(schema) ? validated(schema, answer) : { ok: true, value: answer },
  };
}

function isStandard(schema: ToolSchema): schema is StandardSchema {
  return '~standard' in schema;
}

function jsonSchemaOf(schema: ToolSchema, owner: string, hint = ''): JsonSchema {
  if (!isStandard(schema)) return schema;
  const { jsonSchema, vendor } = schema['~standard'];
  if (jsonSchema === undefined) {
    throw new TypeError(`The ${vendor} schema ${owner} cannot be converted to JSON Schema${hint}`);
  }
  try {
    return jsonSchema.input({ target: 'draft-2020-12' }) as JsonSchema;
  } catch {
    return jsonSchema.input({ target: 'draft-07' }) as JsonSchema;
  }
}

function validated(schema: StandardSchema, input: unknown): Validation {
  try {
    const outcome = schema['~standard'].validate(input);
    if (outcome instanceof Promise) {
      outcome.catch(() => undefined);
      return refused('The schema validates asynchronously: do that in execute');
    }
    if (outcome.issues === undefined) return { ok: true, value: outcome.value };
    return { ok: false, issues: outcome.issues.map(fieldIssue) };
  } catch (cause) {
    return refused(cause instanceof Error ? cause.message : String(cause));
  }
}

function refused(reason: string): Validation {
  const message = `The arguments could not be validated: ${reason}`;
  return { ok: false, issues: [{ path: '', message }] };
}

function fieldIssue({ path = [], message }: Issue): FieldIssue {
  const keys = path.map((part) => (typeof part === 'object' ? part.key : part));
  const where = keys.reduce<string>((parent, key) => childPath(parent, String(key)), '');
  return { path: where, message };
}
