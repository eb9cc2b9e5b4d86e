/** A function of yours that an agent may call: it runs where you are. */
import type { RunTool } from '@relay/protocol/wire';

/** What every Standard Schema has (zod, valibot, arktype, …). https://standardschema.dev */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => Checked<Output> | Promise<Checked<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
    /** There where the library can say its schemas as JSON Schema. */
    readonly jsonSchema?: { readonly input: (options: { target: string }) => object };
  };
}

interface Issue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

type Checked<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly Issue[] };

export type JsonSchema = Readonly<Record<string, unknown>>;

type FunctionDeclaration = Extract<RunTool, { kind: 'function' }>;

export interface ToolContext {
  /** Aborted when the result is no longer wanted: the run is over, or another client has the call. */
  readonly signal: AbortSignal;
  readonly runId: string;
  readonly toolCallId: string;
  /** The same whenever this very call is run again, by whichever client. */
  readonly idempotencyKey: string;
}

interface ToolBase {
  /** 1 to 64 letters, digits, `_` or `-`. */
  readonly name: string;
  readonly description?: string;
  /** How long a result is waited for; left out: as long as the server says. */
  readonly timeoutMs?: number;
}

export interface ToolOptions<Schema extends StandardSchema> extends ToolBase {
  /** Calls are checked by it, and `run` gets what it makes of them. */
  readonly schema: Schema;
  /** What the model is told, where `schema` cannot say itself as JSON Schema. */
  readonly inputSchema?: JsonSchema;
  readonly run: (input: OutputOf<Schema>, context: ToolContext) => unknown;
}

export interface JsonSchemaToolOptions<Input> extends ToolBase {
  /** The server checks calls by it before they come here. */
  readonly schema: JsonSchema;
  readonly run: (input: Input, context: ToolContext) => unknown;
}

type OutputOf<Schema extends StandardSchema> = NonNullable<Schema['~standard']['types']>['output'];

/** A function and all that a run has to know of it. */
export interface ClientTool {
  readonly declaration: FunctionDeclaration;
  /** Checks the input and runs the function. Throws what goes wrong. */
  call(input: unknown, context: ToolContext): Promise<unknown>;
}

export function tool<Schema extends StandardSchema>(options: ToolOptions<Schema>): ClientTool;
export function tool<Input = Record<string, unknown>>(
  options: JsonSchemaToolOptions<Input>,
): ClientTool;
export function tool(options: AnyOptions): ClientTool {
  const { name, description, timeoutMs, schema, run } = options;
  const inputSchema = (options.inputSchema ??
    jsonSchemaOf(name, schema)) as FunctionDeclaration['inputSchema'];
  return {
    declaration: {
      name,
      kind: 'function',
      inputSchema,
      ...(description === undefined ? {} : { description }),
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
    },
    async call(input, context) {
      return run((isStandard(schema) ? await checked(schema, input) : input) as never, context);
    },
  };
}

interface AnyOptions extends ToolBase {
  readonly schema: StandardSchema | JsonSchema;
  readonly inputSchema?: JsonSchema;
  readonly run: (input: never, context: ToolContext) => unknown;
}

function isStandard(schema: object): schema is StandardSchema {
  return '~standard' in schema;
}

function jsonSchemaOf(name: string, schema: StandardSchema | JsonSchema): object {
  if (!isStandard(schema)) return schema;
  const { jsonSchema, vendor } = schema['~standard'];
  if (jsonSchema === undefined) {
    throw new TypeError(
      `The schema of the tool ${name} (${vendor}) cannot say itself as JSON Schema: pass inputSchema too`,
    );
  }
  try {
    return jsonSchema.input({ target: 'draft-2020-12' });
  } catch {
    return jsonSchema.input({ target: 'draft-07' });
  }
}

async function checked(schema: StandardSchema, input: unknown): Promise<unknown> {
  const outcome = await schema['~standard'].validate(input);
  if (outcome.issues === undefined) return outcome.value;
  const issues = outcome.issues.map(({ path = [], message }) => {
    const where = path.map((part) => String(typeof part === 'object' ? part.key : part)).join('.');
    return where === '' ? message : `${where}: ${message}`;
  });
  throw new TypeError(`The input does not fit: ${issues.join('; ')}`);
}
