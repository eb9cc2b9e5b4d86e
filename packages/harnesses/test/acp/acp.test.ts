import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import type { HarnessProcess } from '@relay/core';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { acp, withPresets } from '../../src/acp/acp.ts';
import { agentCommand, type AgentCommandOptions } from '../../src/acp/agent-command.ts';
import { agentPresets } from '../../src/acp/presets.ts';
import { defineHarness } from '../../src/define-harness.ts';

const names = ['claude', 'codex', 'opencode', 'gemini'];

describe('the options of acp', () => {
  it.each(names)('can be left out for the preset %s', (name) => {
    expect(acp({ name })).toMatchObject({ name, runsProcesses: true });
  });

  it.each<[problem: RegExp, options: unknown]>([
    [/^acp: command: Required, because other is none of claude, codex, opencode, gemini$/, {}],
    [/^acp: command\.0: /, { command: [] }],
    [/^acp: command\.0: /, { command: [''] }],
    [/^acp: env\.A: /, { command: ['a'], env: { A: 1 } }],
    [/^acp: preset: /, { preset: 'toString' }],
    [/^acp: home: /, { command: ['a'], home: '/root' }],
    [/^acp: memoryMb: /, { command: ['a'], memoryMb: 1 }],
    [/^acp: .*"bypass"/, { command: ['a'], bypass: true }],
  ])('are checked: %s', (problem, options) => {
    const create = () => acp({ name: 'other', ...(options as object) });
    expect(create).toThrow(TypeError);
    expect(create).toThrow(problem);
  });

  it.each([
    ['--dangerously-skip-permissions'],
    ['--allow-dangerously-skip-permissions'],
    ['--dangerously-bypass-approvals-and-sandbox'],
    ['--yolo'],
    ['--approval-mode=yolo'],
    ['--approval-mode', 'yolo'],
    ['--permission-mode', 'bypassPermissions'],
    ['--full-auto'],
    ['--sandbox', 'danger-full-access'],
    ['--allow-all-tools'],
    ['-c', 'exec claude-agent-acp --dangerously-skip-permissions'],
    ['--config', "mode='agent-full-access'"],
  ])('refuse to switch off permission requests: %s %s', (...args) => {
    expect(() => acp({ name: 'other', command: ['agent', ...args] })).toThrow(
      /^acp: command\.\d: Switches off the permission requests of the agent/,
    );
  });

  it('refuse it in the environment, too', () => {
    expect(() => acp({ name: 'codex', env: { INITIAL_AGENT_MODE: 'agent-full-access' } })).toThrow(
      /^acp: env\.INITIAL_AGENT_MODE: Switches off/,
    );
  });

  it('take a program whose path has such a word', () => {
    expect(() => acp({ name: 'other', command: ['/opt/yolo/agent', '--acp'] })).not.toThrow();
  });
});

describe('the presets', () => {
  it('are there by default, and each is replaced by a harness of its name', () => {
    expect(withPresets([]).map(({ name }) => name)).toEqual(names);
    const own = acp({ name: 'claude', env: { A: 'b' } });
    const echo = defineHarness({ name: 'echo', create: () => Promise.reject(new Error('none')) });
    const harnesses = withPresets([own, echo]);
    expect(harnesses.map(({ name }) => name)).toEqual([
      'codex',
      'opencode',
      'gemini',
      'claude',
      'echo',
    ]);
    expect(harnesses).toContain(own);
  });

  it.each(names)('%s: no argument switches off permission requests', (name) => {
    const args = agentPresets[name]?.command.slice(1) ?? [];
    expect(() => acp({ name: 'other', command: ['agent', ...args] })).not.toThrow();
  });
});

/** Folders of a session, with programs of all presets on the PATH. */
function prepare(given: Partial<HarnessProcess> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'relay-agent-command-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const [bin, home, workspace] = ['bin', 'home', 'workspace'].map((name) => join(folder, name));
  for (const each of [bin, home, workspace]) mkdirSync(each ?? '');
  const program = (path: string) => {
    writeFileSync(path, '#!/bin/sh\n');
    chmodSync(path, 0o755);
  };
  for (const { command } of Object.values(agentPresets)) program(join(bin ?? '', command[0]));
  vi.stubEnv('PATH', [bin, '/usr/bin', '/bin'].join(delimiter));
  vi.stubEnv('RELAY_MASTER_KEY', 'the key of the server');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'a key of the operator');
  onTestFinished(() => void vi.unstubAllEnvs());
  const process: HarnessProcess = {
    tenantId: 'tenant',
    isDefaultTenant: true,
    workspace: workspace ?? '',
    home: home ?? '',
    hidden: () => [],
    mcp: { url: 'http://localhost/mcp', token: 'relay_sess_token' },
    credential: (provider) =>
      Promise.resolve({ apiKey: `${provider}-key`, baseUrl: `https://${provider}.example/v1` }),
    ...given,
  };
  return { folder, bin: bin ?? '', home: home ?? '', workspace: workspace ?? '', process, program };
}

function optionsOf(name: string, own: Partial<AgentCommandOptions> = {}): AgentCommandOptions {
  const preset = agentPresets[name] ?? {};
  return {
    command: agentPresets[name]?.command ?? ['agent'],
    env: {},
    home: 'own',
    providers: agentPresets[name]?.providers ?? [],
    preset,
    model: undefined,
    isSandboxed: true,
    memoryBytes: 2 ** 30,
    ...own,
  };
}

describe('the command of an agent', () => {
  it.each(names)('%s: has a clean environment and a home of its own', async (name) => {
    const { bin, home, workspace, process } = prepare();
    const { line, secrets } = await agentCommand(optionsOf(name), process);
    expect(line.file).toBe(join(bin, agentPresets[name]?.command[0] ?? ''));
    expect(line.cwd).toBe(workspace);
    expect(line.env).toMatchObject({ HOME: home, XDG_CONFIG_HOME: join(home, '.config') });
    expect(line.env['TERM']).toBe('dumb');
    const values = Object.values(line.env).join('\n');
    expect(values).not.toContain('the key of the server');
    expect(values).not.toContain('a key of the operator');
    expect(values).not.toContain('relay_sess_token');
    expect(line.args.join(' ')).not.toContain('-key');
    for (const provider of agentPresets[name]?.providers ?? []) {
      expect(values).toContain(`${provider}-key`);
      expect(secrets).toContain(`${provider}-key`);
    }
  });

  it('has what makes each preset ask, and ignore the settings of a project', async () => {
    const { home, process } = prepare();
    const envOf = async (name: string) => (await agentCommand(optionsOf(name), process)).line.env;
    const claude = await envOf('claude');
    expect(claude).toMatchObject({
      CLAUDE_CONFIG_DIR: join(home, '.claude'),
      ANTHROPIC_BASE_URL: 'https://anthropic.example',
    });
    const settings = readFileSync(join(home, '.claude/settings.json'), 'utf8');
    expect(JSON.parse(settings)).toEqual({
      permissions: { disableBypassPermissionsMode: 'disable' },
    });
    expect(agentPresets['claude']?.sessionMeta).toMatchObject({
      claudeCode: { options: { settingSources: ['user'], strictMcpConfig: true } },
    });
    const codex = await envOf('codex');
    expect(codex).toMatchObject({ INITIAL_AGENT_MODE: 'read-only', MODEL_PROVIDER: 'relay' });
    expect(JSON.parse(codex['CODEX_CONFIG'] ?? '')).toMatchObject({
      model_providers: { relay: { base_url: 'https://openai.example/v1' } },
    });
    const opencode = await envOf('opencode');
    expect(opencode['OPENCODE_DISABLE_PROJECT_CONFIG']).toBe('1');
    expect(JSON.parse(opencode['OPENCODE_CONFIG_CONTENT'] ?? '')).toMatchObject({
      permission: { '*': 'ask' },
    });
    const gemini = await envOf('gemini');
    expect(readFileSync(gemini['GEMINI_CLI_SYSTEM_SETTINGS_PATH'] ?? '', 'utf8')).toContain(
      '"folderTrust":{"enabled":true}',
    );
    expect(gemini['GEMINI_CLI_TRUST_WORKSPACE']).toBeUndefined();
  });

  it('does not write through links that the agent has left in its home', async () => {
    const { process } = prepare();
    const [outside, victim] = [join(process.home, '../outside'), join(process.home, '../victim')];
    mkdirSync(outside);
    writeFileSync(victim, 'of Relay');
    symlinkSync(outside, join(process.home, '.gemini'));
    mkdirSync(join(process.home, '.claude'));
    symlinkSync(victim, join(process.home, '.claude/settings.json'));
    symlinkSync(join(outside, 'new'), join(process.home, '.codex'));
    for (const name of names) await agentCommand(optionsOf(name), process);
    expect(readFileSync(victim, 'utf8')).toBe('of Relay');
    expect(readdirSync(outside)).toEqual([]);
    const settings = readFileSync(join(process.home, '.claude/settings.json'), 'utf8');
    expect(JSON.parse(settings)).toHaveProperty('permissions');
  });

  it('has the environment of the harness, which wins, and is merged where both are JSON', async () => {
    const { process } = prepare();
    const env = {
      OPENCODE_CONFIG_CONTENT: JSON.stringify({ model: 'test/m', permission: { bash: 'deny' } }),
      ANTHROPIC_API_KEY: 'another-key',
    };
    const { line, secrets } = await agentCommand(optionsOf('opencode', { env }), process);
    expect(line.env['ANTHROPIC_API_KEY']).toBe('another-key');
    expect(secrets).toContain('another-key');
    expect(JSON.parse(line.env['OPENCODE_CONFIG_CONTENT'] ?? '')).toMatchObject({
      model: 'test/m',
      share: 'disabled',
      permission: { '*': 'ask', bash: 'deny' },
    });
  });

  it('has the login of the operator only for the tenant default', async () => {
    const { process } = prepare();
    const options = optionsOf('claude', { home: 'operator' });
    const { line } = await agentCommand(options, process);
    expect(line.env['HOME']).toBe(homedir());
    expect(line.env['CLAUDE_CONFIG_DIR']).toBeUndefined();
    await expect(agentCommand(options, { ...process, isDefaultTenant: false })).rejects.toThrow(
      'Only the tenant default can use the login of the operator',
    );
  });

  it.each(Object.entries(agentPresets))(
    '%s: says how to install a program that is missing',
    async (name, { command, package: published }) => {
      const { bin, process } = prepare();
      rmSync(join(bin, command[0]));
      await expect(agentCommand(optionsOf(name), process)).rejects.toThrow(
        `The program ${command[0]} is not installed on the server: npm install -g ${published}`,
      );
    },
  );

  it('is not taken from the workspace, where the agent can write', async () => {
    const { bin, workspace, process, program } = prepare();
    rmSync(join(bin, 'opencode'));
    program(join(workspace, 'opencode'));
    vi.stubEnv('PATH', [workspace, '/usr/bin', '/bin'].join(delimiter));
    await expect(agentCommand(optionsOf('opencode'), process)).rejects.toThrow('not installed');
  });

  it('gives an agent without a preset the key of its provider', async () => {
    const { bin, process, program } = prepare();
    program(join(bin, 'agent'));
    const { line } = await agentCommand(optionsOf('agent', { providers: ['my-llm'] }), process);
    expect(line.env).toMatchObject({
      MY_LLM_API_KEY: 'my-llm-key',
      MY_LLM_BASE_URL: 'https://my-llm.example/v1',
    });
  });

  it.each(['config.toml', 'rules', 'hooks.json'])(
    'is not started for Codex in a project with .codex/%s, which it would follow unasked',
    async (file) => {
      const { workspace, process } = prepare();
      const inner = join(workspace, 'packages/app');
      mkdirSync(inner, { recursive: true });
      mkdirSync(join(workspace, '.git'));
      mkdirSync(join(workspace, '.codex'));
      const given = { ...process, workspace: inner };
      await expect(agentCommand(optionsOf('codex'), given)).resolves.toBeDefined();
      writeFileSync(join(workspace, '.codex', file), '');
      await expect(agentCommand(optionsOf('codex'), given)).rejects.toThrow(
        `Codex would follow ${join(workspace, '.codex', file)}`,
      );
    },
  );

  it('does not see hidden folders in the home of the operator', async () => {
    const sandbox = { network: true, memoryBytes: 2 ** 30, processes: 100 };
    const { process } = prepare({ sandbox });
    const data = join(homedir(), 'relay-data');
    const options = optionsOf('claude', { home: 'operator' });
    const { line } = await agentCommand(options, { ...process, hidden: () => [data] });
    const { args } = line;
    expect(args.lastIndexOf(homedir())).toBeGreaterThan(0);
    expect(args.lastIndexOf(data)).toBeGreaterThan(args.lastIndexOf(homedir()));
  });

  it('runs in the sandbox where there is one, which ends with the server', async () => {
    const sandbox = { network: true, memoryBytes: 2 ** 30, processes: 100 };
    const { bin, folder, home, workspace, process } = prepare({ sandbox });
    const hidden = () => [folder];
    const { line } = await agentCommand(optionsOf('codex'), { ...process, hidden });
    expect(line.file).toBe('bwrap');
    const args = line.args.join(' ');
    expect(args).toContain('--die-with-parent');
    expect(args).toContain(
      `--tmpfs ${folder} --bind ${home} ${home} --bind ${workspace} ${workspace}`,
    );
    // Codex has a sandbox of its own, inside.
    expect(args).toContain('--cap-add CAP_SETFCAP');
    const outside = await agentCommand(optionsOf('codex', { isSandboxed: false }), process);
    expect(outside.line.file).toBe(join(bin, 'codex-acp'));
    const claude = await agentCommand(optionsOf('claude'), process);
    expect(claude.line.args).not.toContain('CAP_SETFCAP');
  });
});
