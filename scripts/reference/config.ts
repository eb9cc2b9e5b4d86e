/** docs/reference/config.md: the fields of `relay.config.ts`, with types from the schema that checks it. */
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { configSchema } from '../../packages/server/src/config/config-file.ts';
import { requireSame } from './settings.ts';

interface Field {
  /** Default: from the schema. */
  readonly type?: string;
  readonly default?: string;
  readonly meaning: string;
}

interface JsonSchema {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly additionalProperties?: JsonSchema | boolean;
  readonly items?: JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
  readonly required?: readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
}

/** Fields that the schema leaves to `defineAgent` and `defineTool`, or that are functions. */
const code: Readonly<Record<string, Field>> = {
  agents: {
    type: '`defineAgent(…)[]`',
    meaning:
      'agents that runs can begin with, spawn and hand off to ([guide](../guides/agents.md)); see [agents](#agents)',
  },
  tools: {
    type: '`defineTool(…)[]`',
    meaning: 'tools besides the built-in ones; see [tools](#tools)',
  },
  harnesses: {
    type: '`acp(…)`, `pty(…)` or `defineHarness(…)`, a list',
    meaning:
      'what sessions can be started of, besides the built-in harnesses ([guide](../guides/harnesses.md))',
  },
};

const fields: Readonly<Record<string, Field>> = {
  'actions[].name': { meaning: '1 to 64 letters, digits, `_` or `-`' },
  'actions[].description': { meaning: 'what it does, for those who invoke it' },
  'actions[].inputSchema': {
    type: 'JSON Schema',
    meaning: 'its input, checked before the handler runs',
  },
  'actions[].outputSchema': { type: 'JSON Schema', meaning: 'its output, checked after it' },
  'actions[].handler': {
    type: 'function',
    meaning:
      '`(input, context) => output`, in the process of the server ([guide](../guides/sessions.md#expose-functions-to-agents))',
  },
  'actions[].availableTo': {
    type: 'selectors',
    default: 'everyone in the tenant',
    meaning: 'which sessions and keys may invoke it',
  },
  'actions[].timeoutMs': { default: '600000', meaning: 'how long it may take' },
  'actions[].idempotent': { default: '`false`', meaning: 'it may be invoked again after a crash' },
  'mcpServers.*.command': {
    meaning:
      'a program that Relay starts and talks to over stdio; either this or `url` ([guide](../guides/mcp.md))',
  },
  'mcpServers.*.args': { default: 'none', meaning: 'its arguments' },
  'mcpServers.*.env': {
    default: 'a few harmless variables',
    meaning: 'its environment, besides those',
  },
  'mcpServers.*.cwd': {
    default: 'the folder of the server, or `cwd` of `embed`',
    meaning: 'its working directory',
  },
  'mcpServers.*.url': { meaning: 'a server that is reached over Streamable HTTP' },
  'mcpServers.*.headers': { default: 'none', meaning: 'headers of every request to it' },
  'mcpServers.*.tools': {
    default: 'all',
    meaning: 'the tools to use, by their names at the server',
  },
  'mcpServers.*.readOnly': {
    type: '`true`, `"annotated"` or names',
    default: 'none',
    meaning: 'tools that run without an approval, and may run again after a crash',
  },
  'mcpServers.*.idempotent': {
    type: '`true`, `"annotated"` or names',
    default: 'none',
    meaning: 'tools that may run again after a crash, with the same idempotency key',
  },
  'mcpServers.*.kinds': {
    type: '`{ tool: { parameter: kind } }`',
    default: 'text',
    meaning: 'how rules match parameters: `command`, `path`, `url` or `text`',
  },
  'mcpServers.*.timeoutMs': {
    default: '60000',
    meaning: 'the longest time without a message during a call, not counting questions',
  },
  'mcpServers.*.connectTimeoutMs': { default: '60000', meaning: 'the longest time to connect' },
  'mcpServers.*.tenants': { default: 'all', meaning: 'the tenants that have its tools' },
  'providers.endpoints.openai': {
    type: 'URL',
    meaning: 'another base URL for the provider ([guide](../guides/models.md))',
  },
  'providers.endpoints.anthropic': { type: 'URL', meaning: 'the same' },
  'providers.endpoints.google': { type: 'URL', meaning: 'the same' },
  'providers.timeouts.firstByteMs': {
    default: '120000',
    meaning: 'how long to wait for the first byte of an answer',
  },
  'providers.timeouts.idleMs': {
    default: '120000',
    meaning: 'how long a provider may be silent after it',
  },
  'prices.*.inputPerMillion': {
    meaning:
      'US dollars per million tokens of input, by model ([guide](../guides/models.md#prices))',
  },
  'prices.*.outputPerMillion': { meaning: '… of output' },
  'prices.*.cachedInputPerMillion': {
    default: 'the input price',
    meaning: '… of input that the provider had cached',
  },
  'prices.*.cacheWritePerMillion': {
    default: 'the input price',
    meaning: '… of input that the provider stores in its cache',
  },
  'limits.tokens': {
    default: 'none',
    meaning:
      'input and output tokens of all agents of a run. A request can only lower these limits ([guide](../guides/agents.md#set-limits))',
  },
  'limits.costUsd': { default: 'none', meaning: 'US dollars; every model must have a price' },
  'limits.toolCalls': { default: 'none', meaning: 'tool calls' },
  'limits.timeMs': {
    default: 'none',
    meaning: 'wall-clock time since the start, including waits for approvals',
  },
  'limits.depth': { default: '5', meaning: 'nesting of sub-agents; 0 disables them' },
  'limits.subAgents': { default: '50', meaning: 'sub-agents in all' },
  'rateLimit.requestsPerMinute': {
    default: '60000',
    meaning: 'requests of a key ([guide](../guides/operations.md#limits-of-requests))',
  },
  'rateLimit.tenantRequestsPerMinute': { default: '240000', meaning: 'requests of a tenant' },
  'rateLimit.megabytesPerMinute': {
    default: '4096',
    meaning: 'megabytes of request bodies of a key',
  },
  'rateLimit.failuresPerMinute': {
    default: '600',
    meaning: 'failed authentications of an address',
  },
  'bash.network': {
    default: '`true`',
    meaning: 'whether sandboxed commands may use the network ([guide](../guides/tools.md#sandbox))',
  },
  'bash.memoryMb': {
    default: '4096',
    meaning: 'the most memory of a process of a sandboxed command',
  },
  'bash.processes': {
    default: '1024',
    meaning: 'the most processes and threads of a sandboxed command',
  },
  'bash.environment': {
    default: 'PATH and a few others',
    meaning: 'variables that commands inherit from the server, besides those',
  },
  'embeddings.model': {
    meaning:
      'a provider and its model, such as `openai:text-embedding-3-small`: enables semantic search of [memories](../guides/memory.md)',
  },
  'embeddings.dimensions': {
    default: "the model's",
    meaning: 'shorter vectors, for models that support them',
  },
  'embeddings.floor': {
    default: 'by model, else 0.5',
    meaning: 'the minimum similarity of related texts',
  },
  'embeddings.questionTimeoutMs': {
    default: '1500',
    meaning: 'how long a run waits for the vector of its query',
  },
  'compaction.threshold': {
    default: '0.8',
    meaning:
      "the part of the model's window above which a conversation is summarized ([guide](../guides/agents.md#long-conversations))",
  },
  'compaction.keep': { default: '0.3', meaning: 'the part of the window that recent turns keep' },
  'compaction.windowTokens': {
    default: 'only a refused request is summarized',
    meaning: 'assumed for models whose window is unknown',
  },
  'compaction.model': { default: "the agent's own", meaning: 'the model that summarizes' },
};

const agentFields: Readonly<Record<string, Field>> = {
  name: {
    type: 'text',
    default: 'required',
    meaning: 'names it in requests, hand-offs and spawns',
  },
  description: { type: 'text', meaning: 'what it is for; shown to agents that may hand off to it' },
  instructions: { type: 'text', meaning: 'its system prompt' },
  model: {
    type: 'text',
    default: 'that of its caller',
    meaning: 'such as `gpt-6-luna` or `ollama:qwen3`',
  },
  tools: { type: 'tools or names', default: 'those of its caller', meaning: 'what it may call' },
  handoffs: {
    type: 'agents or names',
    default: 'none',
    meaning: 'the agents that it may hand off to',
  },
  guardrails: {
    type: '`{ input?, output? }`',
    default: 'none',
    meaning: 'checks of what comes in and goes out',
  },
  maxIterations: { type: 'number', default: '50', meaning: 'the most turns' },
  outputSchema: {
    type: 'JSON Schema or zod',
    default: 'text',
    meaning: 'the schema of its last answer',
  },
  reasoning: {
    type: '`"none"` to `"max"`',
    default: "the model's",
    meaning: 'the reasoning effort',
  },
  memory: {
    type: '`true` or `{ namespace }`',
    default: 'none',
    meaning: 'gives [memory](../guides/memory.md) to runs that start with it',
  },
};

const toolFields: Readonly<Record<string, Field>> = {
  name: { type: 'text', default: 'required', meaning: '1 to 64 letters, digits, `_` or `-`' },
  description: { type: 'text', default: 'required', meaning: 'what it does, for the model' },
  schema: {
    type: 'Standard Schema (zod, valibot, arktype, …) or JSON Schema',
    default: 'required',
    meaning: 'its parameters: an object',
  },
  inputSchema: {
    type: 'JSON Schema',
    default: 'from `schema`',
    meaning: 'for the model, if `schema` cannot be converted',
  },
  execute: {
    type: 'function',
    default: 'required',
    meaning:
      '`(input, context) => output`; `context` has `signal`, `ask`, `spawn`, `idempotencyKey` and more',
  },
  allowedByDefault: {
    type: 'boolean',
    default: '`false`',
    meaning: 'runs without an approval unless a rule denies it',
  },
  needsApproval: {
    type: 'boolean',
    default: '`false`',
    meaning: 'a person must approve each call, whatever allows it',
  },
  idempotent: {
    type: 'boolean',
    default: '`false`',
    meaning: 'safe to run again after a crash, with the same idempotency key',
  },
  onUnknown: {
    type: '`"ask"` or `"fail"`',
    default: '`"ask"`',
    meaning: 'what to do when a crash left the outcome unknown',
  },
  needsMemory: {
    type: 'boolean',
    default: '`false`',
    meaning: 'available only in runs with memory',
  },
  needsSession: {
    type: 'boolean',
    default: '`false`',
    meaning: 'available only in turns of sessions',
  },
  kinds: {
    type: '`{ parameter: kind }`',
    default: 'text',
    meaning: 'how rules match parameters: `command`, `path`, `url` or `text`',
  },
  sensitive: {
    type: 'names',
    default: 'none',
    meaning: 'parameters that a rule with any parameters must name if the call has them',
  },
  derivePermission: { type: 'function', meaning: 'the rule to suggest to an approver' },
  resolvePaths: {
    type: 'function',
    meaning:
      'resolves path parameters, or refuses the call, or demands a person for it ([guide](../guides/permissions.md#what-the-approver-sees)); an approval is valid only while the paths stay the same',
  },
  preview: { type: 'function', meaning: 'what a call would do, for the approver; has no effects' },
};

type Leaf = readonly [path: string, schema: JsonSchema, isRequired: boolean];

/** Each leaf of the schema, such as `limits.tokens` or `mcpServers.*.url`. */
function leaves(schema: JsonSchema, path: string): Leaf[] {
  const isRequired = (name: string) => schema.required?.includes(name) ?? false;
  const join = (name: string) => (path === '' ? name : `${path}.${name}`);
  const nested = (name: string, each: JsonSchema): Leaf[] => {
    const here = join(name);
    if (here in code || here in fields) return [[here, each, isRequired(name)]];
    if (each.properties !== undefined) return leaves(each, here);
    if (each.items?.properties !== undefined) return leaves(each.items, `${here}[]`);
    if (typeof each.additionalProperties === 'object' && each.additionalProperties.properties) {
      return leaves(each.additionalProperties, `${here}.*`);
    }
    return [[here, each, isRequired(name)]];
  };
  return Object.entries(schema.properties ?? {}).flatMap(([name, each]) => nested(name, each));
}

function typeOf(schema: JsonSchema): string {
  if (schema.enum !== undefined) return schema.enum.map((each) => JSON.stringify(each)).join(', ');
  if (schema.type === 'array') return `list of ${typeOf(schema.items ?? {})}`;
  if (schema.type === 'object') return 'texts by name';
  if (schema.type === 'string') return 'text';
  if (schema.type !== 'integer' && schema.type !== 'number') return schema.type ?? 'any';
  const kind = schema.type === 'integer' ? 'whole number' : 'number';
  const from =
    schema.exclusiveMinimum === undefined ? schema.minimum : `above ${schema.exclusiveMinimum}`;
  const largest = schema.maximum ?? Number.MAX_SAFE_INTEGER;
  const to =
    schema.exclusiveMaximum === undefined
      ? largest === Number.MAX_SAFE_INTEGER
        ? undefined
        : largest
      : `below ${schema.exclusiveMaximum}`;
  if (from === undefined) return kind;
  return to === undefined
    ? `${kind}, ${typeof from === 'number' ? `at least ${from}` : from}`
    : `${kind}, ${from} to ${to}`;
}

function table(rows: readonly (readonly [string, Field, string])[]): string[] {
  return [
    '| field | type | default | meaning |',
    '|---|---|---|---|',
    ...rows.map(
      ([name, field, type]) =>
        `| \`${name}\` | ${field.type ?? type} | ${field.default ?? '–'} | ${field.meaning} |`,
    ),
    '',
  ];
}

const own = (described: Readonly<Record<string, Field>>) =>
  table(Object.entries(described).map(([name, field]) => [name, field, ''] as const));

/** The names in the type of `defineAgent` or `defineTool`. */
function declared(path: string, ...interfaces: readonly string[]): string[] {
  const source = readFileSync(new URL(`../../packages/tools/src/${path}`, import.meta.url), 'utf8');
  return interfaces.flatMap((name) => {
    const body = new RegExp(`interface ${name}\\b.*?\\{\\n(.*?)^\\}`, 'ms').exec(source)?.[1] ?? '';
    return [...body.matchAll(/^ {2}(?:readonly )?(\w+)\??[:(]/gm)].map(([, field = '']) => field);
  });
}

export function configPage(generated: string): string {
  const schema = z.toJSONSchema(configSchema, {
    unrepresentable: 'any',
    io: 'input',
  }) as JsonSchema;
  const found = leaves(schema, '');
  const described = { ...code, ...fields };
  requireSame(
    Object.keys(described),
    found.map(([path]) => path),
  );
  requireSame(Object.keys(agentFields), declared('define-agent.ts', 'AgentConfig'));
  requireSame(
    Object.keys(toolFields),
    declared('define-tool.ts', 'BaseDefinition', 'ToolDefinition'),
  );
  const example = readFileSync(
    new URL('../../examples/config/relay.config.ts', import.meta.url),
    'utf8',
  );
  return [
    '# relay.config.ts',
    '',
    generated,
    '',
    'What an operator defines in code. The server imports the file `relay.config.ts` (or `.mts`, `.js`, `.mjs`) of its working directory once, at its start; `RELAY_CONFIG` names another one. A mistake stops the start with one line that says where it is. Environment variables are in [settings](settings.md).',
    '',
    '## A complete example',
    '',
    '```ts',
    example.trimEnd(),
    '```',
    '',
    '## Fields',
    '',
    'All are optional, except those that are required within their object. `*` is a name that you choose, such as that of a model, `[]` an item of a list.',
    '',
    ...table(
      found.map(([path, each, isRequired]) => {
        const field = described[path] ?? { meaning: '' };
        return [path, isRequired ? { default: 'required', ...field } : field, typeOf(each)];
      }),
    ),
    '## Agents',
    '',
    'The fields of `defineAgent`.',
    '',
    ...own(agentFields),
    '## Tools',
    '',
    'The fields of `defineTool`.',
    '',
    ...own(toolFields),
  ].join('\n');
}
