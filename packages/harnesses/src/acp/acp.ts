/** Coding agents as sessions, over the Agent Client Protocol. */
import { type Harness, type HarnessContext, type HarnessInput, systemClock } from '@relay/core';
import { defined } from '@relay/protocol';
import { z } from 'zod';
import { defineHarness } from '../define-harness.ts';
import { agentCommand, type AgentCommandOptions } from './agent-command.ts';
import { AgentProcess } from './agent-process.ts';
import { type AgentConnection, connectAgent } from './connection.ts';
import { type AgentPreset, agentPresets } from './presets.ts';
import { openAcpSession } from './session.ts';
import { AgentSupervisor, type AgentSupervisorOptions } from './supervisor.ts';

export interface AcpOptions {
  /** What `POST /v1/sessions` names it. The name of a preset changes that preset. */
  readonly name: string;
  /** `claude`, `codex`, `opencode` or `gemini`. Default: the one of this name, if there is one. */
  readonly preset?: string;
  /** The program and its arguments. Required without a preset. */
  readonly command?: readonly string[];
  /** Added to its environment. It wins over all else; values that are JSON objects are merged. */
  readonly env?: Readonly<Record<string, string>>;
  /**
   * `own`: a new home folder for each session, which is removed with it. `operator`: that of the user who runs
   * the server, with the login there; only for the tenant `default`. Default: `own`.
   */
  readonly home?: 'own' | 'operator';
  /** The model provider whose key of the tenant it gets. Default: that of the preset. */
  readonly provider?: string;
  /** False: outside the sandbox. Default: in it, where there is one. */
  readonly sandbox?: boolean;
  /** The most memory of the agent and all that it has started. Default: 8192. */
  readonly memoryMb?: number;
  /** After so long without a message an agent that can resume its session is ended. Default: 15. */
  readonly idleMinutes?: number;
}

const text = z.string().refine((value) => !value.includes('\0'), 'Must not contain NUL');
/** Agents that never ask cannot be governed. */
const bypass =
  /(?:^|[\s='"])-{0,2}[\w-]*(?:dangerous|yolo|bypass|full-?auto|full-?access|auto-?approve|skip-?permission|allow-all|trust-all)/i;
const withoutBypass = text.refine(
  (value) => !bypass.test(value),
  'Switches off the permission requests of the agent, which Relay does not allow',
);
const schema = z.strictObject({
  name: z.string(),
  preset: z.enum(Object.keys(agentPresets)).optional(),
  command: z.tuple([text.min(1)], withoutBypass).optional(),
  env: z.record(text.min(1), withoutBypass).optional(),
  home: z.enum(['own', 'operator']).optional(),
  provider: text.min(1).optional(),
  sandbox: z.boolean().optional(),
  memoryMb: z.int().min(64).optional(),
  idleMinutes: z.number().positive().optional(),
});

const defaultMemoryMb = 8_192;
const megabyte = 1024 * 1024;
const minuteMs = 60_000;

/** Throws a TypeError that says which option is wrong. */
export function acp(options: AcpOptions): Harness {
  const { data, error } = schema.safeParse(options);
  const [issue] = error?.issues ?? [];
  if (data === undefined) {
    throw new TypeError(
      `acp: ${[issue?.path.join('.'), issue?.message].filter(Boolean).join(': ')}`,
    );
  }
  const { name, env = {}, home = 'own', sandbox = true, provider, idleMinutes } = data;
  const preset: Partial<AgentPreset> = presetOf(data.preset ?? name) ?? {};
  const command = data.command ?? preset.command;
  if (command === undefined) {
    throw new TypeError(
      `acp: command: Required, because ${name} is none of ${Object.keys(agentPresets).join(', ')}`,
    );
  }
  const settings = {
    command: [command[0], ...command.slice(1)],
    env,
    home,
    preset,
    providers: provider === undefined ? (preset.providers ?? []) : [provider],
    isSandboxed: sandbox,
    memoryBytes: (data.memoryMb ?? defaultMemoryMb) * megabyte,
  } as const;
  const open = (input: HarnessInput & { readonly state?: unknown }, context: HarnessContext) => {
    const { process, model, state } = input;
    if (process === undefined) throw new Error(`The harness ${name} needs a workspace`);
    const connect = connector({ ...settings, model }, process);
    return openAcpSession({
      harness: name,
      name: preset.title ?? name,
      input,
      process,
      context,
      clock: systemClock,
      ...defined({ state, meta: preset.sessionMeta, uncopied: preset.uncopied }),
      supervise: (hooks) =>
        new AgentSupervisor({
          ...hooks,
          connect,
          clock: systemClock,
          timings: defined({ idleMs: idleMinutes && idleMinutes * minuteMs }),
        }),
    });
  };
  return defineHarness({ name, runsProcesses: true, create: open, attach: open });
}

function presetOf(name: string): AgentPreset | undefined {
  return Object.hasOwn(agentPresets, name) ? agentPresets[name] : undefined;
}

function connector(
  options: AgentCommandOptions,
  process: NonNullable<HarnessInput['process']>,
): AgentSupervisorOptions['connect'] {
  const { memoryBytes, preset } = options;
  return async (client, signal): Promise<AgentConnection> => {
    const { line, secrets } = await agentCommand(options, process);
    signal.throwIfAborted();
    const program = new AgentProcess({ command: line, secrets, memoryBytes });
    const abort = () => void program.end('The agent was stopped');
    signal.addEventListener('abort', abort, { once: true });
    try {
      const connection = await connectAgent(program, client, { clock: systemClock });
      const { methodId, variable = '' } = preset.authentication ?? {};
      if (Object.hasOwn(line.env, variable)) await authenticate(connection, methodId);
      return connection;
    } finally {
      signal.removeEventListener('abort', abort);
    }
  };
}

async function authenticate(connection: AgentConnection, methodId: string | undefined) {
  const { authMethods = [] } = connection.initialized;
  if (methodId === undefined || !authMethods?.some(({ id }) => id === methodId)) return;
  try {
    await connection.agent.request('authenticate', { methodId });
  } catch (error) {
    await connection.close(`The agent could not be authenticated: ${(error as Error).message}`);
    throw new Error((await connection.closed).reason, { cause: error });
  }
}

/** With the agents that every server has, except for those that were replaced. */
export function withPresets(configured: readonly Harness[]): Harness[] {
  const isFree = (name: string) => configured.every((harness) => harness.name !== name);
  const names = Object.keys(agentPresets).filter((name) => isFree(name));
  return [...names.map((name) => acp({ name })), ...configured];
}
