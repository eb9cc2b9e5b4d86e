import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type Config,
  ConfigError,
  isLoopback,
  readConfig,
  readTraceSettings,
} from '../../src/config/config.ts';

const cwd = '/srv/relay';

function read(env: Record<string, string | undefined>): Config {
  return readConfig(env, cwd);
}

/** The one line that the person who starts the server gets to see. */
function errorFor(env: Record<string, string>): string {
  try {
    read(env);
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as ConfigError).message;
  }
  throw new Error(`Nothing was wrong with ${JSON.stringify(env)}`);
}

const day = 24 * 60 * 60 * 1000;

const defaults: Config = {
  host: '127.0.0.1',
  port: 4000,
  dataDir: '/srv/relay/.relay',
  nodeId: undefined,
  databaseUrl: undefined,
  workspace: undefined,
  sandbox: 'auto',
  keylessChat: 'demo',
  providerKeys: [],
  defaultModel: undefined,
  embeddings: undefined,
  leaseTtlMs: 15_000,
  stopTimeoutMs: 30_000,
  approvalTtlMs: day,
  toolResultTimeoutMs: 600_000,
  maxActiveRuns: 256,
  providerAttempts: 9,
  providerWaitMs: 60_000,
  maxAnswerChars: 4 * 1024 * 1024,
  maxStreams: 20_000,
  maxStreamsPerTenant: 10_000,
  maxStreamsPerKey: 1_000,
  requestMemoryBytes: 512 * 1024 * 1024,
  runMemoryBytes: expect.any(Number) as number,
  inboxLimit: 1_000,
  deliveryTtlMs: 600_000,
  maxAgents: 16,
  disconnect: 'cancel',
  retentionMs: undefined,
  outputBytes: 10_240 * 1024 * 1024,
  allowedHosts: [],
  allowedOrigins: [],
  masterKey: undefined,
  previousMasterKey: undefined,
  privateNetworks: [],
  internalSecret: undefined,
  traces: undefined,
  logLevel: 'info',
  publicUrl: undefined,
};

const variables = [
  'RELAY_HOST',
  'RELAY_PORT',
  'RELAY_DATA_DIR',
  'RELAY_DATABASE_URL',
  'RELAY_WORKSPACE',
  'RELAY_SANDBOX',
  'RELAY_LOCAL_CHAT',
  'RELAY_DEFAULT_MODEL',
  'RELAY_EMBEDDINGS',
  'RELAY_LEASE_TTL_MS',
  'RELAY_STOP_TIMEOUT_MS',
  'RELAY_APPROVAL_TTL_MS',
  'RELAY_TOOL_RESULT_TIMEOUT_MS',
  'RELAY_DELIVERY_TTL_MS',
  'RELAY_MAX_ACTIVE_RUNS',
  'RELAY_PROVIDER_ATTEMPTS',
  'RELAY_PROVIDER_WAIT_MS',
  'RELAY_MAX_ANSWER_CHARS',
  'RELAY_MAX_STREAMS',
  'RELAY_MAX_STREAMS_PER_TENANT',
  'RELAY_MAX_STREAMS_PER_KEY',
  'RELAY_REQUEST_MEMORY_MB',
  'RELAY_RUN_MEMORY_MB',
  'RELAY_DISCONNECT',
  'RELAY_RETENTION_DAYS',
  'RELAY_ALLOWED_HOSTS',
  'RELAY_ALLOWED_ORIGINS',
  'RELAY_MASTER_KEY',
  'RELAY_MASTER_KEY_PREVIOUS',
  'RELAY_PRIVATE_NETWORKS',
  'RELAY_INTERNAL_SECRET',
  'RELAY_LOG_LEVEL',
];

describe('readConfig', () => {
  it('has a default for every setting', () => {
    expect(read({})).toEqual(defaults);
  });

  it.each(variables)('takes an empty or blank %s as unset', (name) => {
    expect(read({ [name]: '' })).toEqual(defaults);
    expect(read({ [name]: ' \t ' })).toEqual(defaults);
    expect(read({ [name]: undefined })).toEqual(defaults);
  });

  it('ignores unknown variables', () => {
    expect(read({ RELAY_PROT: '1', HOST: '0.0.0.0', PORT: '1', npm_config_port: '1' })).toEqual(
      defaults,
    );
  });

  it.each<[string, string, Partial<Config>]>([
    ['RELAY_HOST', '0.0.0.0', { host: '0.0.0.0', keylessChat: 'off' }],
    ['RELAY_HOST', '::1', { host: '::1' }],
    ['RELAY_HOST', ' localhost ', { host: 'localhost' }],
    ['RELAY_PORT', '0', { port: 0 }],
    ['RELAY_PORT', '65535', { port: 65_535 }],
    ['RELAY_PORT', ' 8080 ', { port: 8080 }],
    ['RELAY_PORT', '0080', { port: 80 }],
    ['RELAY_DATA_DIR', '/var/lib/relay', { dataDir: '/var/lib/relay' }],
    ['RELAY_DATA_DIR', 'data', { dataDir: '/srv/relay/data' }],
    ['RELAY_DATA_DIR', '../data', { dataDir: '/srv/data' }],
    ['RELAY_DATABASE_URL', 'postgres://a:b@h/n', { databaseUrl: 'postgres://a:b@h/n' }],
    ['RELAY_DATABASE_URL', 'postgresql://h/n', { databaseUrl: 'postgresql://h/n' }],
    ['RELAY_LOCAL_CHAT', 'on', { keylessChat: 'all' }],
    ['RELAY_LOCAL_CHAT', 'off', { keylessChat: 'off' }],
    ['RELAY_DEFAULT_MODEL', 'demo', { defaultModel: 'demo' }],
    ['RELAY_EMBEDDINGS', 'openai:e', { embeddings: 'openai:e' }],
    ['RELAY_LEASE_TTL_MS', '1500', { leaseTtlMs: 1500 }],
    ['RELAY_LEASE_TTL_MS', '100', { leaseTtlMs: 100 }],
    ['RELAY_STOP_TIMEOUT_MS', '0', { stopTimeoutMs: 0 }],
    ['RELAY_APPROVAL_TTL_MS', '1', { approvalTtlMs: 1 }],
    ['RELAY_APPROVAL_TTL_MS', String(365 * day), { approvalTtlMs: 365 * day }],
    ['RELAY_TOOL_RESULT_TIMEOUT_MS', '5000', { toolResultTimeoutMs: 5000 }],
    ['RELAY_DELIVERY_TTL_MS', '5000', { deliveryTtlMs: 5000 }],
    ['RELAY_MAX_ACTIVE_RUNS', '1', { maxActiveRuns: 1 }],
    ['RELAY_MAX_ANSWER_CHARS', '1000', { maxAnswerChars: 1000 }],
    ['RELAY_MAX_STREAMS_PER_KEY', '5', { maxStreamsPerKey: 5 }],
    ['RELAY_PROVIDER_ATTEMPTS', '1', { providerAttempts: 1 }],
    ['RELAY_PROVIDER_WAIT_MS', '0', { providerWaitMs: 0 }],
    ['RELAY_RUN_MEMORY_MB', '16', { runMemoryBytes: 16 * 1024 * 1024 }],
    ['RELAY_RETENTION_DAYS', '30', { retentionMs: 30 * day }],
    ['RELAY_OUTPUT_MB', '2', { outputBytes: 2 * 1024 * 1024 }],
    ['RELAY_DISCONNECT', 'detach', { disconnect: 'detach' }],
    ['RELAY_DISCONNECT', 'cancel', { disconnect: 'cancel' }],
  ])('reads %s=%j and leaves all else as it was', (name, value, expected) => {
    expect(read({ [name]: value })).toEqual({ ...defaults, ...expected });
  });

  it.each([
    ['RELAY_PORT', '65536', '0 to 65535'],
    ['RELAY_PORT', '-1', '0 to 65535'],
    ['RELAY_PORT', '4000.5', '0 to 65535'],
    ['RELAY_PORT', '4e3', '0 to 65535'],
    ['RELAY_PORT', '0x50', '0 to 65535'],
    ['RELAY_PORT', '4000 # web', '0 to 65535'],
    ['RELAY_PORT', '٤٠٠٠', '0 to 65535'],
    ['RELAY_PORT', '9'.repeat(400), '0 to 65535'],
    ['RELAY_LEASE_TTL_MS', '99', '100 to 3600000'],
    ['RELAY_LEASE_TTL_MS', '3600001', '100 to 3600000'],
    ['RELAY_LEASE_TTL_MS', '15s', '100 to 3600000'],
    ['RELAY_APPROVAL_TTL_MS', '0', `1 to ${365 * day}`],
    ['RELAY_APPROVAL_TTL_MS', '24h', `1 to ${365 * day}`],
    ['RELAY_APPROVAL_TTL_MS', String(365 * day + 1), `1 to ${365 * day}`],
    ['RELAY_MAX_ACTIVE_RUNS', '0', '1 to 100000'],
    ['RELAY_PROVIDER_ATTEMPTS', '0', '1 to 100'],
    ['RELAY_PROVIDER_WAIT_MS', '-1', '0 to 3600000'],
    ['RELAY_MAX_ANSWER_CHARS', '0', '1000 to 67108864'],
    ['RELAY_RUN_MEMORY_MB', '15', '16 to 1000000'],
    ['RELAY_MAX_ANSWER_CHARS', '4MB', '1000 to 67108864'],
    ['RELAY_MAX_ACTIVE_RUNS', '100001', '1 to 100000'],
    ['RELAY_MAX_ACTIVE_RUNS', 'many', '1 to 100000'],
    ['RELAY_LOCAL_CHAT', 'yes', 'on or off'],
    ['RELAY_LOCAL_CHAT', 'ON', 'on or off'],
    ['RELAY_LOCAL_CHAT', 'true', 'on or off'],
    ['RELAY_DISCONNECT', 'keep', 'cancel or detach'],
    ['RELAY_DISCONNECT', 'Cancel', 'cancel or detach'],
  ])('refuses %s=%s and says what it may be', (name, value, allowed) => {
    const message = errorFor({ [name]: value });
    expect(message).toContain(name);
    expect(message).toContain(allowed);
    expect(message).toContain(JSON.stringify(value));
  });

  it.each(['mysql://ada:secret@h/n', 'ada:secret@h', '/var/lib/relay'])(
    'refuses a database that it does not know, and does not repeat what may hold a password',
    (url) => {
      const message = errorFor({ RELAY_DATABASE_URL: url });
      expect(message).toMatch(/^RELAY_DATABASE_URL must be like postgres:/);
      expect(message).not.toContain('secret');
    },
  );

  it('refuses an invalid host before it listens', () => {
    expect(errorFor({ RELAY_HOST: 'no such host' })).toContain('RELAY_HOST');
    expect(errorFor({ RELAY_HOST: 'http://127.0.0.1:4000' })).toContain('RELAY_HOST');
  });

  it('reports an error in one line, whatever the value contains', () => {
    const named = fc.constantFrom(
      'RELAY_PORT',
      'RELAY_LOCAL_CHAT',
      'RELAY_LEASE_TTL_MS',
      'RELAY_DISCONNECT',
    );
    fc.assert(
      fc.property(named, fc.string({ unit: 'binary', minLength: 1 }), (name, junk) => {
        const message = errorFor({ [name]: `x${junk}x` });
        expect(message.split(/[\n\r]/)).toHaveLength(1);
        expect(message).toContain(name);
      }),
    );
  });

  it('reports only the first of several mistakes', () => {
    const message = errorFor({ RELAY_PORT: 'x', RELAY_DISCONNECT: 'y' });
    expect(message).toContain('RELAY_PORT');
    expect(message).not.toContain('RELAY_DISCONNECT');
  });
});

describe('a loopback address', () => {
  it.each(['localhost', 'LOCALHOST', '127.0.0.1', '127.1.2.3', '::1', '[::1]'])(
    '%s is one',
    (host) => {
      expect(isLoopback(host)).toBe(true);
    },
  );

  it.each([
    '',
    '0.0.0.0',
    '::',
    '10.0.0.1',
    '128.0.0.1',
    '127.0.0.1.evil.example',
    '127.evil.example',
    'localhost.evil.example',
    'notlocalhost',
    '127.0.0.256',
    '127.1',
    '127.0.0.1:4000',
    '[127.0.0.1',
    '::2',
    '2130706433',
  ])('%j is none', (host) => {
    expect(isLoopback(host)).toBe(false);
  });
});

describe('private networks', () => {
  it.each([
    ['10.0.0.0/8', [{ network: '10.0.0.0/8' }]],
    ['10.0.0.0/8, 192.168.1.1', [{ network: '10.0.0.0/8' }, { network: '192.168.1.1' }]],
    ['127.0.0.0/8 ::1/128', [{ network: '127.0.0.0/8' }, { network: '::1/128' }]],
    ['acme=10.0.0.0/8:11434', [{ tenant: 'acme', network: '10.0.0.0/8:11434' }]],
    ['acme=[::1]:11434', [{ tenant: 'acme', network: '[::1]:11434' }]],
  ])('are read from %s', (text, networks) => {
    expect(read({ RELAY_PRIVATE_NETWORKS: text }).privateNetworks).toEqual(networks);
  });

  it.each(['10.0.0.0/33', 'localhost', '10.0.0.0/8;::1', '*', 'a=', '=::1', 'a=b=::1', '::1/8:'])(
    'are not %s',
    (text) => {
      expect(errorFor({ RELAY_PRIVATE_NETWORKS: text })).toMatch(
        /^RELAY_PRIVATE_NETWORKS: .* is not a network such as 10\.0\.0\.0\/8$/,
      );
    },
  );
});

describe('RELAY_ALLOWED_HOSTS and RELAY_ALLOWED_ORIGINS', () => {
  it('are lists separated by commas or spaces', () => {
    const { allowedHosts, allowedOrigins } = read({
      RELAY_ALLOWED_HOSTS: 'Relay.example.com, 10.0.0.7 [fd00::1]',
      RELAY_ALLOWED_ORIGINS: 'https://a.example,http://b.example:8080',
    });
    expect(allowedHosts).toEqual(['relay.example.com', '10.0.0.7', 'fd00::1']);
    expect(allowedOrigins).toEqual(['https://a.example', 'http://b.example:8080']);
  });

  it.each([
    ['RELAY_ALLOWED_HOSTS', '*'],
    ['RELAY_ALLOWED_HOSTS', 'https://a.example'],
    ['RELAY_ALLOWED_HOSTS', 'a.example:80'],
    ['RELAY_ALLOWED_ORIGINS', '*'],
    ['RELAY_ALLOWED_ORIGINS', 'a.example'],
    ['RELAY_ALLOWED_ORIGINS', 'https://a.example/path'],
    ['RELAY_ALLOWED_ORIGINS', 'null'],
  ])('%s is not %s', (name, value) => {
    expect(errorFor({ [name]: value })).toMatch(new RegExp(`^${name}: .* is not an? `));
  });
});

describe('RELAY_INTERNAL_SECRET', () => {
  it('is undefined by default', () => {
    expect(read({}).internalSecret).toBeUndefined();
    expect(read({ RELAY_INTERNAL_SECRET: '  ' }).internalSecret).toBeUndefined();
  });

  it('is trimmed', () => {
    const secret = 'a+b/c=d~e!0123456';
    expect(read({ RELAY_INTERNAL_SECRET: ` ${secret}\n` }).internalSecret).toBe(secret);
  });

  it.each(['0123456789abcde', 'x'.repeat(513), 'two words of a secret', 'geheimnisgroßgeheim'])(
    'is not %j, and the message does not repeat it',
    (secret) => {
      const message = errorFor({ RELAY_INTERNAL_SECRET: secret });
      expect(message).toMatch(/^RELAY_INTERNAL_SECRET must have 16 to 512 /);
      expect(message).not.toContain(secret);
    },
  );
});

const shared = 'OTEL_EXPORTER_OTLP_ENDPOINT';
const own = 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT';

describe('readTraceSettings', () => {
  it('is undefined without an endpoint', () => {
    expect(readTraceSettings({})).toBeUndefined();
    expect(readTraceSettings({ [shared]: ' ' })).toBeUndefined();
    expect(readTraceSettings({ OTEL_SERVICE_NAME: 'x' })).toBeUndefined();
  });

  it.each([
    [{ [shared]: 'http://c:4318' }, 'http://c:4318/v1/traces'],
    [{ [shared]: 'http://c:4318/' }, 'http://c:4318/v1/traces'],
    [{ [shared]: 'https://c/otlp' }, 'https://c/otlp/v1/traces'],
    [{ [own]: 'http://c:4318/mine' }, 'http://c:4318/mine'],
    [{ [own]: 'http://mine/', [shared]: 'http://c' }, 'http://mine/'],
  ])('follows %j', (env, url) => {
    expect(readTraceSettings(env)?.url).toBe(url);
  });

  it.each([{ OTEL_SDK_DISABLED: 'true' }, { OTEL_TRACES_EXPORTER: 'none' }])(
    'is nowhere with %j',
    (env) => {
      expect(readTraceSettings({ [shared]: 'http://c:4318', ...env })).toBeUndefined();
    },
  );

  it('reads headers and names, the more specific ones first', () => {
    expect(
      readTraceSettings({
        [shared]: 'http://c:4318',
        OTEL_EXPORTER_OTLP_HEADERS: 'a=1, b=two%20words ,',
        OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'a=3',
        OTEL_RESOURCE_ATTRIBUTES: 'service.name=other,deployment.environment.name=prod',
        OTEL_SERVICE_NAME: 'relay-eu',
      }),
    ).toEqual({
      url: 'http://c:4318/v1/traces',
      headers: { a: '3', b: 'two words' },
      serviceName: 'relay-eu',
      resource: { 'deployment.environment.name': 'prod' },
    });
  });

  it('has a default service name', () => {
    expect(readTraceSettings({ [shared]: 'http://c' })?.serviceName).toBe('relay');
  });

  it.each([
    [{ [shared]: 'localhost:4318' }, shared],
    [{ [own]: 'not a url' }, own],
    [{ [shared]: 'ftp://c' }, shared],
    [{ [shared]: 'http://c', OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, 'OTEL_EXPORTER_OTLP_PROTOCOL'],
    [{ [shared]: 'http://c', OTEL_EXPORTER_OTLP_HEADERS: 'secret' }, 'OTEL_EXPORTER_OTLP_HEADERS'],
    [
      { [shared]: 'http://c', OTEL_EXPORTER_OTLP_HEADERS: 'a=secret%zz' },
      'OTEL_EXPORTER_OTLP_HEADERS',
    ],
  ])('complains in one line about %j, without repeating a secret', (env, name) => {
    expect(() => readTraceSettings(env)).toThrow(name);
    expect(() => readTraceSettings(env)).not.toThrow(/secret|\n/);
  });
});
