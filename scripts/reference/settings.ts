/** docs/reference/settings.md: what each setting is for, checked against those that the server reads. */
import { knownSettings } from '../../packages/server/src/config/unknown-settings.ts';

interface Setting {
  readonly default: string;
  readonly purpose: string;
}

const none = '–';

/** By subject. */
const settings: Readonly<Record<string, Readonly<Record<string, Setting>>>> = {
  'Address and data': {
    RELAY_HOST: { default: '`127.0.0.1`', purpose: 'address to listen on' },
    RELAY_PORT: { default: '`4000`', purpose: 'port to listen on; 0: any free one' },
    RELAY_DATA_DIR: { default: '`.relay`', purpose: 'data folder' },
    RELAY_CONFIG: {
      default: '`relay.config.ts`',
      purpose: '[configuration file](config.md) for agents, tools, MCP servers and limits',
    },
    RELAY_DATABASE_URL: {
      default: none,
      purpose:
        '`postgres://…`: shared database for [several servers](../guides/scale-out.md); requires `RELAY_MASTER_KEY`',
    },
    RELAY_NODE_ID: {
      default: 'a name that is kept in the data folder',
      purpose:
        'the name of this node, which the sessions of configured harnesses belong to; set it if nodes share a data folder',
    },
    RELAY_LEASE_TTL_MS: {
      default: '`15000`',
      purpose: 'time after which other nodes take over the runs of a node that stopped responding',
    },
    RELAY_STOP_TIMEOUT_MS: {
      default: '`30000`',
      purpose:
        'how long a server that [stops](../guides/deploy.md#2-start-it-with-systemd) waits for tools and actions that are running; idempotent ones get at most 5 s',
    },
    RELAY_RETENTION_DAYS: {
      default: none,
      purpose:
        '[retention](../guides/operations.md#retention) of conversations, counted from their last run; unset: forever',
    },
    RELAY_OUTPUT_MB: {
      default: '`10240`',
      purpose:
        'disk space for [long command outputs](../guides/tools.md#bash); the oldest are deleted first',
    },
    RELAY_LOG_LEVEL: {
      default: '`info`',
      purpose: '`debug`, `info`, `warn`, `error` or `off`',
    },
  },
  'Access from the network': {
    RELAY_PUBLIC_URL: {
      default: none,
      purpose:
        'public URL of the server, for [decision links](../guides/governance.md#decision-links) and [the console](../guides/governance.md#sign-ins-to-the-console)',
    },
    RELAY_ALLOWED_HOSTS: {
      default: none,
      purpose:
        'host names that requests may have. Unset: any, or only those of this machine if the server listens on loopback',
    },
    RELAY_ALLOWED_ORIGINS: {
      default: none,
      purpose: 'origins of web pages that may call the server',
    },
    RELAY_LOCAL_CHAT: {
      default: none,
      purpose:
        '`off`: `/chat` always requires a key. `on`: callers on this machine have all models and tools through `/chat` without a key. Unset: only the model `demo` and the tools `calculator` and `send_note`',
    },
    RELAY_ENV_CREDENTIALS: {
      default: none,
      purpose:
        'whether the tenant `default` uses the [provider keys of the environment](../guides/models.md#keys-from-the-environment) where it has stored none: `on` or `off`. Unset: `on` if only this machine reaches the server (it listens on a loopback address and has no public name), and the server is one of `relay dev` or has no `RELAY_DATABASE_URL`',
    },
    RELAY_INTERNAL_SECRET: {
      default: none,
      purpose: 'shared secret for `/internal` and `/metrics`',
    },
    RELAY_PRIVATE_NETWORKS: {
      default: none,
      purpose:
        'private networks that the URLs of providers, webhooks and actions may point to, as `[tenant=]CIDR[:port]`',
    },
  },
  Secrets: {
    RELAY_MASTER_KEY: {
      default: 'generated in the data folder',
      purpose:
        '[key](../guides/operations.md#master-key) that encrypts provider credentials, and the key that signs API keys, grants, policies and the audit trail',
    },
    RELAY_MASTER_KEY_PREVIOUS: {
      default: none,
      purpose: 'the key before it, while credentials are encrypted again',
    },
  },
  'Models and tools': {
    RELAY_DEFAULT_MODEL: { default: none, purpose: 'model for requests that name none' },
    RELAY_EMBEDDINGS: {
      default: none,
      purpose:
        "embedding model for [memories](../guides/memory.md), such as `openai:text-embedding-3-small`. Memory texts are sent to that provider with each tenant's credential",
    },
    RELAY_PROVIDER_ATTEMPTS: {
      default: '`9`',
      purpose: 'calls of a model per turn if it fails for now',
    },
    RELAY_PROVIDER_WAIT_MS: {
      default: '`60000`',
      purpose: 'the time to wait between these calls, in all',
    },
    RELAY_WORKSPACE: {
      default: none,
      purpose:
        'folder for the tools `bash`, `read` and `patch` of the tenant `default` ([guide](../guides/tools.md#assign-a-workspace))',
    },
    RELAY_SANDBOX: {
      default: '`auto`',
      purpose:
        'which commands run inside bubblewrap: those that a rule allows, where it works (`auto`), all (`bwrap`), none (`off`)',
    },
  },
  'Times and behaviour of runs': {
    RELAY_APPROVAL_TTL_MS: { default: '24 hours', purpose: 'time until an approval expires' },
    RELAY_TOOL_RESULT_TIMEOUT_MS: {
      default: '10 minutes',
      purpose: 'time for a client to post the result of a function tool',
    },
    RELAY_DISCONNECT: {
      default: '`cancel`',
      purpose: '`detach`: the run of a chat continues after its connection closes',
    },
    RELAY_DELIVERY_TTL_MS: {
      default: '`600000`',
      purpose: 'how long messages wait for a session that is offline',
    },
  },
  'Limits of a node': {
    RELAY_MAX_ACTIVE_RUNS: {
      default: '`256`',
      purpose: 'concurrent runs; further runs are queued. Waiting runs do not count',
    },
    RELAY_RUN_MEMORY_MB: {
      default: '10 % of the heap',
      purpose:
        'memory for active runs, as an estimate. While it is used up, further runs are queued and answers are read more slowly',
    },
    RELAY_MAX_ANSWER_CHARS: {
      default: '`4194304`',
      purpose:
        'longest answer of a model in one turn: characters (UTF-16 code units) of text, reasoning and tool calls together. A longer answer fails the run with `answer_too_large`',
    },
    RELAY_MAX_STREAMS_PER_KEY: {
      default: '`1000`',
      purpose: 'open streams and waiting requests of a key',
    },
    RELAY_MAX_STREAMS_PER_TENANT: { default: '`10000`', purpose: '… of a tenant' },
    RELAY_MAX_STREAMS: { default: '`20000`', purpose: '… of all' },
    RELAY_REQUEST_MEMORY_MB: {
      default: '`512`',
      purpose: 'request bodies that are received at the same time; one tenant may use half',
    },
    RELAY_INBOX_LIMIT: {
      default: '`1000`',
      purpose:
        'messages that wait for one session, which together may have 10 MB; more are refused with `inbox_full`',
    },
    RELAY_MAX_AGENTS: {
      default: '`16`',
      purpose: 'sessions whose agents run as processes; more are refused with `too_many_open`',
    },
  },
  'Clients (the CLI)': {
    RELAY_URL: { default: '`http://127.0.0.1:4000`', purpose: 'the server to use' },
    RELAY_API_KEY: { default: none, purpose: 'the key to use' },
    RELAY_PROFILE: {
      default: none,
      purpose: 'the [profile](../guides/cli.md#select-a-server-and-a-key) to use',
    },
    RELAY_PROFILES: {
      default: '`~/.config/relay/profiles.json`',
      purpose: 'the file with the profiles',
    },
  },
};

export function settingsPage(generated: string): string {
  requireSame(Object.values(settings).flatMap(Object.keys), knownSettings());
  return [
    '# Settings',
    '',
    generated,
    '',
    'Environment variables. An invalid value stops the start with a one-line error. An unknown `RELAY_…` variable is logged as a warning. What is defined in code is in [`relay.config.ts`](config.md).',
    '',
    ...Object.entries(settings).flatMap(([title, group]) => [
      `## ${title}`,
      '',
      '| variable | default | purpose |',
      '|---|---|---|',
      ...Object.entries(group).map(
        ([name, each]) => `| \`${name}\` | ${each.default} | ${each.purpose} |`,
      ),
      '',
    ]),
    '## OpenTelemetry',
    '',
    '`OTEL_EXPORTER_OTLP_ENDPOINT` is the endpoint for [traces](../guides/operations.md#monitoring). `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_EXPORTER_OTLP_TRACES_HEADERS`, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_EXPORTER=none` and `OTEL_SDK_DISABLED=true` work as usual.',
    '',
  ].join('\n');
}

/** A page that misses what the code has, or the reverse, is not written. */
export function requireSame(described: readonly string[], real: readonly string[]): void {
  const missing = real.filter((name) => !described.includes(name));
  const gone = described.filter((name) => !real.includes(name));
  const twice = described.filter((name, index) => described.indexOf(name) < index);
  if (missing.length + gone.length + twice.length === 0) return;
  const lines = [
    ...missing.map((name) => `${name} is not described`),
    ...twice.map((name) => `${name} is described twice`),
    ...gone.map((name) => `${name} is described, but does not exist`),
  ];
  throw new Error(`scripts/reference: ${lines.join('; ')}`);
}
