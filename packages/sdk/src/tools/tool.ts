/** Function tools: functions that an agent can call and that run in this process. */
import {
  checkToolFields,
  defined,
  type JsonSchema,
  type ParameterKind,
  type ParsedInput,
  readToolSchema,
  type RunTool,
  serverToolFields,
  toolOutputOf,
  type ToolOutput,
  type ToolPermission,
  type ToolSchema,
  type Validation,
} from '@relay/protocol/wire';

type FunctionDeclaration = Extract<RunTool, { kind: 'function' }>;

/** What `execute` receives everywhere. In the server and in the library it has more. */
export interface ToolContext {
  /** Aborted when the result is no longer needed: the run has ended, or another client has the call. */
  readonly signal: AbortSignal;
  readonly runId: string;
  readonly toolCallId: string;
  /** The same for every execution of this call, by any client. */
  readonly idempotencyKey: string;
  /** What the tool is doing. Text from a client is not shown. */
  readonly progress: (text: string) => void;
}

export interface ToolDefinition<Schema extends ToolSchema = ToolSchema> {
  /** 1 to 64 letters, digits, `_` or `-`. */
  readonly name: string;
  readonly description?: string;
  /** A Standard Schema (zod, valibot, arktype, …) or a JSON Schema of an object. */
  readonly schema: Schema;
  /** The JSON Schema for the model, if `schema` cannot be converted. */
  readonly inputSchema?: JsonSchema;
  /** A person must approve each call before the function runs. Default: in a client it runs unasked. */
  readonly needsApproval?: boolean;
  /** In the server and the library: runs unasked, as it does in a client. Default: false. */
  readonly allowedByDefault?: boolean;
  /**
   * Safe to run again after a crash, with the same idempotency key. Otherwise a call that another client
   * may have run fails with an error for the model. Default: false.
   */
  readonly idempotent?: boolean;
  /** In the server: what to do when a crash left the outcome unknown. In a client the call fails. */
  readonly onUnknown?: 'ask' | 'fail';
  /** What parameters are, which decides how rules match them. Default: text. */
  readonly kinds?: Readonly<Record<string, ParameterKind>>;
  /** Parameters that a rule with any parameters must name if the call has them. */
  readonly sensitive?: readonly string[];
  /** In the server and the library: the rule to suggest to an approver. */
  derivePermission?(input: ParsedInput<Schema>): ToolPermission | undefined;
  /** In a client: how long the run waits for the result. Default: set by the server. */
  readonly timeoutMs?: number;
  /**
   * Returns `{ context?, result? }`, or any other value, which is the result. `context` is the text for
   * the model.
   */
  execute(input: ParsedInput<Schema>, context: ToolContext): unknown;
}

/** What a client runs: what `defineTool` returns, here or in the server and the library. */
export interface ClientTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: JsonSchema;
  readonly needsApproval?: boolean;
  readonly idempotent: boolean;
  readonly kinds?: Readonly<Record<string, ParameterKind>>;
  readonly sensitive?: readonly string[];
  readonly timeoutMs?: number;
  validate(input: unknown): Validation;
  execute(input: unknown, context: ToolContext): Promise<ToolOutput>;
}

/** A tool for a client, a `relay.config.ts` and the library. */
export interface DefinedTool extends ClientTool {
  readonly allowedByDefault: boolean;
  readonly onUnknown: 'ask' | 'fail';
  readonly derivePermission?: (input: Record<string, unknown>) => ToolPermission | undefined;
  /** The server and the library define the tool from it, with the validation that a client leaves to them. */
  readonly definition: ToolDefinition;
}

export function defineTool<const Schema extends ToolSchema>(
  definition: ToolDefinition<Schema>,
): DefinedTool {
  const { name, description = '', needsApproval, kinds, sensitive, timeoutMs } = definition;
  const { allowedByDefault = false, idempotent = false, onUnknown = 'ask' } = definition;
  refuseServerFields(name, definition);
  checkToolFields(definition);
  if (needsApproval === true && allowedByDefault) {
    throw new TypeError(`The tool ${name} has needsApproval and allowedByDefault: use one of them`);
  }
  const derive = definition.derivePermission?.bind(definition);
  return {
    name,
    description,
    ...readToolSchema(definition, () => []),
    allowedByDefault,
    idempotent,
    onUnknown,
    definition: { ...definition, description },
    ...defined({
      needsApproval,
      kinds,
      sensitive,
      timeoutMs,
      derivePermission:
        derive && ((input: Record<string, unknown>) => derive(input as ParsedInput<Schema>)),
    }),
    execute: async (input, context) =>
      toolOutputOf(await definition.execute(input as ParsedInput<Schema>, context)),
  };
}

export function declarationOf(tool: ClientTool): FunctionDeclaration {
  const { name, description, timeoutMs, needsApproval, kinds, sensitive } = tool;
  refuseServerFields(name, tool);
  return {
    name,
    kind: 'function',
    inputSchema: tool.inputSchema as FunctionDeclaration['inputSchema'],
    ...defined({
      description: description === '' ? undefined : description,
      timeoutMs,
      needsApproval,
      kinds,
      sensitive: sensitive && [...sensitive],
    }),
  };
}

function refuseServerFields(name: string, tool: object): void {
  const field = serverToolFields.find((each) => each in tool);
  if (field === undefined) return;
  throw new TypeError(
    `The tool ${name} has ${field}, so a client cannot run it: put it into relay.config.ts`,
  );
}

/** Parts of the context that only the server and the library have. */
const missing = ['ask', 'spawn', 'allowedBy', 'context', 'tenantId', 'agentId'];

/** A tool that uses a part of the context that a client does not have fails with its name. */
export function clientContext(context: Omit<ToolContext, 'progress'>): ToolContext {
  const full: ToolContext = { ...context, progress: () => undefined };
  for (const name of missing) {
    Object.defineProperty(full, name, {
      get() {
        throw new TypeError(`A client has no context.${name}: run this tool in the server`);
      },
    });
  }
  return full;
}

/** The arguments as the schema parsed them. */
export function parseInput(tool: ClientTool, input: unknown): unknown {
  const validation = tool.validate(input);
  if (validation.ok) return validation.value;
  const issues = validation.issues.map(({ path, message }) =>
    path === '' ? message : `${path}: ${message}`,
  );
  throw new TypeError(`Invalid input: ${issues.join('; ')}`);
}
