import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { loadConfigFile, type RelayConfig, bashSettings } from '../../src/config/config-file.ts';
import { ConfigError, readConfig } from '../../src/config/config.ts';
import { assembleDefinitions } from '../../src/config/definitions.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'relay-config-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function write(name: string, text: string): string {
  const path = join(dir, name);
  writeFileSync(path, text);
  return path;
}

describe('relay.config', () => {
  it('is optional', async () => {
    expect(await loadConfigFile({}, dir)).toEqual({});
  });

  it.each(['relay.config.ts', 'relay.config.mts', 'relay.config.js', 'relay.config.mjs'])(
    'is found as %s where the server starts',
    async (name) => {
      write('package.json', '{"type":"module"}');
      write(name, 'export default { limits: { depth: 2 } };');
      expect(await loadConfigFile({}, dir)).toEqual({ limits: { depth: 2 } });
    },
  );

  it('may be TypeScript, without a build', async () => {
    write('relay.config.ts', 'const depth: number = 2;\nexport default { limits: { depth } };');
    expect(await loadConfigFile({}, dir)).toEqual({ limits: { depth: 2 } });
  });

  it('is found at RELAY_CONFIG', async () => {
    write('other.ts', 'export default { prices: {} };');
    expect(await loadConfigFile({ RELAY_CONFIG: 'other.ts' }, dir)).toEqual({ prices: {} });
    const path = join(dir, 'other.ts');
    expect(await loadConfigFile({ RELAY_CONFIG: path }, '/')).toEqual({ prices: {} });
  });

  it('is used as written, not copied', async () => {
    write(
      'relay.config.ts',
      `class Tool { name = 'own'; validate() {} }
       export const own = new Tool();
       export default { tools: [own] };`,
    );
    const { tools = [] } = await loadConfigFile({}, dir);
    expect(tools[0]).toHaveProperty('validate');
  });

  it.each([
    [
      'export default { limit: {} };',
      /relay\.config\.ts: limit: Unknown field \(did you mean limits\?\)$/,
    ],
    [
      'export default { mcpServer: {} };',
      /relay\.config\.ts: mcpServer: Unknown field \(did you mean mcpServers\?\)$/,
    ],
    [
      'export default { mcpServers: { shop: { command: "x", readonly: true } } };',
      /mcpServers\.shop\.readonly: Unknown field \(did you mean readOnly\?\)$/,
    ],
    ['export default { limits: { depth: -1 } };', /limits\.depth: /],
    ['export default { prices: { demo: { inputPerMillion: "1" } } };', /prices\.demo\./],
    ['export default { agents: [{}] };', /agents\[0\]\.name: /],
    ['export default { harnesses: {} };', /harnesses: /],
    [
      'export default { harnesses: [{ name: "a" }] };',
      /harnesses\[0\]\.create: Must be a function$/,
    ],
    [
      'export default { harnesses: [{ name: "human", create() {} }] };',
      /harnesses\[0\]\.name: Every server has a harness human; choose another name$/,
    ],
    [
      'const a = { name: "a", create() {} }; export default { harnesses: [a, a] };',
      /harnesses\[1\]\.name: Another harness has the name a$/,
    ],
    ['export default { compaction: { threshold: 2 } };', /compaction\.threshold: /],
    ['export default { embeddings: { model: "a:b", floor: 2 } };', /embeddings\.floor: /],
    ['export default { embeddings: {} };', /embeddings\.model: /],
    ['export default { providers: { endpoints: { acme: "https://a.b" } } };', /endpoints\.acme: /],
    ['export default { providers: { endpoints: { openai: "here" } } };', /endpoints\.openai: /],
    ['export default { providers: { timeouts: { idleMs: 0 } } };', /timeouts\.idleMs: /],
    ['export default { mcpServers: { a: {} } };', /mcpServers\.a: Must have a command or a url/],
    [
      'export default { mcpServers: { a_b: { command: "x" } } };',
      /mcpServers\.a_b: The name of a server must have/,
    ],
    [
      'export default { mcpServers: { a: { command: "x", env: { T: process.env.NO } } } };',
      /\.T: /,
    ],
    ['export default 7;', /must export its configuration as default/],
    ['export const config = {};', /must export its configuration as default/],
    ['throw new Error("Not today");', /relay\.config\.ts.*: Not today$/],
    ['import "./missing.ts";', /relay\.config\.ts:1:9: .*missing/],
  ])('stops the start with one line: %s', async (text, line) => {
    write('relay.config.ts', text);
    const failure = await loadConfigFile({}, dir).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(ConfigError);
    expect((failure as ConfigError).message).toMatch(line);
    expect((failure as ConfigError).message).not.toContain('\n');
  });

  it('must exist if RELAY_CONFIG names it', async () => {
    await expect(loadConfigFile({ RELAY_CONFIG: 'gone.ts' }, dir)).rejects.toThrow(
      /RELAY_CONFIG: there is no file .*gone\.ts/,
    );
  });
});

describe('assembleDefinitions', () => {
  const assemble = (file: RelayConfig) =>
    assembleDefinitions(readConfig({ RELAY_DATA_DIR: dir }, dir), file, {});

  it('adds to the built-in models, tools and agents', () => {
    const { tools, agents, models } = assemble({
      agents: [{ name: 'triage', handoffs: [{ name: 'billing', tools: ['calculator'] }] }],
      prices: { demo: { inputPerMillion: 1, outputPerMillion: 2 } },
    });
    expect(tools.list().map(({ name }) => name)).toEqual([
      'agent',
      'calculator',
      'memory',
      'send_message',
      'list_sessions',
      'invoke_action',
      'send_note',
    ]);
    expect(agents.list().map(({ name }) => name)).toEqual(['triage', 'billing']);
    expect(models.price?.('demo')).toEqual({ inputPerMillion: 1, outputPerMillion: 2 });
    expect(models.price?.('other')).toBeUndefined();
  });

  const misspelt = {
    name: 'refund',
    description: 'Pays money back',
    schema: { type: 'object' },
    execute: () => null,
    needsAproval: true,
  };

  it.each<[string, RelayConfig, string]>([
    [
      'two agents of one name',
      { agents: [{ name: 'a' }, { name: 'a' }] },
      'relay.config: Two agents are named a',
    ],
    [
      'a handoff to an unknown agent',
      { agents: [{ name: 'a', handoffs: ['b'] }] },
      'relay.config: The agent a hands off to b, which does not exist',
    ],
    [
      'a handoff to an agent with a misspelt name',
      { agents: [{ name: 'a', handoffs: ['biling'] }, { name: 'billing' }] },
      'relay.config: The agent a hands off to biling, which does not exist; did you mean billing?',
    ],
    [
      'a tool whose words are in another order',
      { agents: [{ name: 'a', tools: ['note_send'] }] },
      'relay.config: the agent a uses the tool note_send, which does not exist; did you mean send_note?',
    ],
    [
      'a tool that does not exist',
      { agents: [{ name: 'a', tools: ['fly'] }] },
      'relay.config: the agent a uses the tool fly, which does not exist',
    ],
    [
      'a model that no provider offers',
      { agents: [{ name: 'a', model: 'hal-9000' }] },
      'relay.config: no provider offers the model hal-9000 of the agent a',
    ],
    [
      'a summarizer that no provider offers',
      { compaction: { model: 'hal-9000' } },
      'relay.config: compaction.model: no provider offers the model hal-9000',
    ],
    [
      'an agent without a name',
      { agents: [{ name: '' }] },
      'relay.config: Invalid agent name "": use 1 to 64 letters, digits, spaces, ".", "_" or "-"',
    ],
    [
      'a misspelt field of a tool',
      { tools: [misspelt] },
      'relay.config: The tool refund: Unknown field needsAproval; did you mean needsApproval?',
    ],
    [
      'a misspelt field of an agent’s tool',
      { agents: [{ name: 'a', tools: [misspelt] }] },
      'relay.config: The tool refund: Unknown field needsAproval; did you mean needsApproval?',
    ],
  ])('stops the start with one line: %s', (_, file, line) => {
    expect(() => assemble(file)).toThrow(new ConfigError(line));
  });

  it('accepts agents with tools that an MCP server may offer, and no other unknown tools', () => {
    const mcpServers = { files: { command: 'x', tools: ['read'] }, web: { command: 'y' } };
    const agent = (tool: string) => ({ mcpServers, agents: [{ name: 'a', tools: [tool] }] });
    for (const tool of ['files_read', 'web_find'])
      expect(() => assemble(agent(tool))).not.toThrow();
    for (const tool of ['files_write', 'mail_send']) {
      expect(() => assemble(agent(tool))).toThrow(`the tool ${tool}, which does not exist`);
    }
  });

  it('refuses a tool with the name of a built-in one', async () => {
    const { defineTool } = await import('@relay/tools');
    const { z } = await import('zod');
    const shadow = defineTool({
      name: 'calculator',
      description: 'Another one',
      schema: z.object({}),
      execute: () => ({}),
    });
    expect(() => assemble({ tools: [shadow] })).toThrow('Two tools are named calculator');
  });
});

const there = async () => undefined;
const missing = async () => 'bubblewrap is not installed (no bwrap on the PATH)';
const auto = { sandbox: 'auto' } as const;

describe('bashSettings', () => {
  it('has a sandbox for commands that a rule allowed, where bubblewrap works', async () => {
    expect(await bashSettings(auto, undefined, there)).toEqual({
      sandbox: {
        commands: 'allowed-by-rule',
        network: true,
        memoryBytes: 4 * 1024 ** 3,
        processes: 1_024,
      },
      environment: [],
      summary: expect.stringContaining('Commands that a rule allows run in a sandbox'),
    });
    expect(await bashSettings(auto, undefined, missing)).toEqual({
      sandbox: undefined,
      environment: [],
      summary: 'No command runs in a sandbox: bubblewrap is not installed (no bwrap on the PATH)',
    });
  });

  it('has a sandbox for all commands or for none if that is demanded', async () => {
    expect(await bashSettings({ sandbox: 'bwrap' }, {}, there)).toMatchObject({
      sandbox: { commands: 'all' },
    });
    expect(await bashSettings({ sandbox: 'off' }, {}, there)).toMatchObject({
      sandbox: undefined,
      summary: 'No command runs in a sandbox: RELAY_SANDBOX is off',
    });
  });

  it('takes the limits, the network and the variables from the file', async () => {
    const file = { network: false, memoryMb: 100, processes: 50, environment: ['JAVA_HOME'] };
    expect(await bashSettings(auto, file, there)).toMatchObject({
      sandbox: { network: false, memoryBytes: 100 * 1024 ** 2, processes: 50 },
      environment: ['JAVA_HOME'],
    });
  });

  it.each([
    ['RELAY_SANDBOX is bwrap, but bubblewrap is not installed', { sandbox: 'bwrap' }, {}],
    ['bash.network: false requires a sandbox, but bubblewrap is not', auto, { network: false }],
    ['requires a sandbox, but RELAY_SANDBOX is off', { sandbox: 'off' }, { network: false }],
    [
      'bash.environment[1]: RELAY_X may contain a Relay secret',
      auto,
      { environment: ['A', 'RELAY_X'] },
    ],
    ['bash.environment[0]', auto, { environment: ['LD_PRELOAD'] }],
  ] as const)('stops the start: %s', async (message, config, file) => {
    await expect(bashSettings(config, file, missing)).rejects.toThrow(message);
  });
});
