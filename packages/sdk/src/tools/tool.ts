/** Function tools: functions that an agent can call and that run in this process. */
import { defined, type RunTool } from '@relay/protocol/wire';

/** The Standard Schema interface (zod, valibot, arktype, …). https://standardschema.dev */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => Validation<Output> | Promise<Validation<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
    /** Set if the library can convert its schemas to JSON Schema. */
    readonly jsonSchema?: { readonly input: (options: { target: string }) => object };
  };
}

interface Issue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

type Validation<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly Issue[] };

export type JsonSchema = Readonly<Record<string, unknown>>;

type FunctionDeclaration = Extract<RunTool, { kind: 'function' }>;

export interface ToolContext {
  /** Aborted when the result is no longer needed: the run has ended, or another client has the call. */
  readonly signal: AbortSignal;
  readonly runId: string;
  readonly toolCallId: string;
  /** The same for every execution of this call, by any client. */
  readonly idempotencyKey: string;
}

interface ToolBase {
  /** 1 to 64 letters, digits, `_` or `-`. */
  readonly name: string;
  readonly description?: string;
  /** How long the run waits for the result. Default: set by the server. */
  readonly timeoutMs?: number;
  /** A person must approve each call before the function runs. Default: it runs unasked. */
  readonly needsApproval?: boolean;
}

export interface ToolOptions<Schema extends StandardSchema> extends ToolBase {
  /** Validates calls; `run` receives the parsed input. */
  readonly schema: Schema;
  /** The JSON Schema for the model, if `schema` cannot be converted. */
  readonly inputSchema?: JsonSchema;
  readonly run: (input: OutputOf<Schema>, context: ToolContext) => unknown;
}

export interface JsonSchemaToolOptions<Input> extends ToolBase {
  /** The server validates calls against it. */
  readonly schema: JsonSchema;
  readonly run: (input: Input, context: ToolContext) => unknown;
}

type OutputOf<Schema extends StandardSchema> = NonNullable<Schema['~standard']['types']>['output'];

/** A function and its declaration. */
export interface ClientTool {
  readonly declaration: FunctionDeclaration;
  /** Validates the input and runs the function. */
  call(input: unknown, context: ToolContext): Promise<unknown>;
}

export function tool<Schema extends StandardSchema>(options: ToolOptions<Schema>): ClientTool;
export function tool<Input = Record<string, unknown>>(
  options: JsonSchemaToolOptions<Input>,
): ClientTool;
export function tool(options: AnyOptions): ClientTool {
  const { name, description, timeoutMs, needsApproval, schema, run } = options;
  const inputSchema = (options.inputSchema ??
    jsonSchemaOf(name, schema)) as FunctionDeclaration['inputSchema'];
  return {
    declaration: {
      name,
      kind: 'function',
      inputSchema,
      ...defined({ description, timeoutMs, needsApproval }),
    },
    async call(input, context) {
      return run((isStandard(schema) ? await parse(schema, input) : input) as never, context);
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
      `The ${vendor} schema of the tool ${name} cannot be converted to JSON Schema; pass inputSchema too`,
    );
  }
  try {
    return jsonSchema.input({ target: 'draft-2020-12' });
  } catch {
    return jsonSchema.input({ target: 'draft-07' });
  }
}

async function parse(schema: StandardSchema, input: unknown): Promise<unknown> {
  const outcome = await schema['~standard'].validate(input);
  if (outcome.issues === undefined) return outcome.value;
  const issues = outcome.issues.map(({ path = [], message }) => {
    const where = path.map((part) => String(typeof part === 'object' ? part.key : part)).join('.');
    return where === '' ? message : `${where}: ${message}`;
  });
  throw new TypeError(`Invalid input: ${issues.join('; ')}`);
}
