import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { systemClock } from '@relay/core';
import { AgentProcess, type AgentProcessOptions } from '../../src/acp/agent-process.ts';
import {
  type AgentClient,
  type AgentConnection,
  connectAgent,
  type ConnectionLimits,
} from '../../src/acp/connection.ts';

export const hostileAgent = fileURLToPath(new URL('hostile-agent.ts', import.meta.url));

/** The pids of processes with a variable in their environment, whatever group or session they are in. */
export function processesWith(variable: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(variable);
      } catch {
        return false;
      }
    })
    .map(Number);
}

/** Records what an agent asks and reports. */
export class RecordingClient implements AgentClient {
  sessionId: string | undefined;
  readonly texts: string[] = [];
  readonly updates: unknown[] = [];
  readonly violations: string[] = [];
  permissions = 0;
  /** Awaited by each update. */
  gate: Promise<void> = Promise.resolve();
  /** Awaited by each permission request. */
  answer: Promise<void> = Promise.resolve();
  withdrawn = 0;

  async update(update: Parameters<AgentClient['update']>[0]): Promise<void> {
    this.updates.push(update);
    if (update.sessionUpdate === 'agent_message_chunk' && update.content.type === 'text') {
      this.texts.push(update.content.text);
    }
    await this.gate;
  }

  requestPermission: AgentClient['requestPermission'] = async (_, signal) => {
    this.permissions += 1;
    signal.addEventListener('abort', () => (this.withdrawn += 1));
    await this.answer;
    return { outcome: { outcome: 'selected', optionId: 'yes' } };
  };

  elicit: AgentClient['elicit'] = () => Promise.resolve({ action: 'cancel' });

  violation(problem: string): void {
    this.violations.push(problem);
  }
}

export interface StartedAgent {
  readonly client: RecordingClient;
  readonly program: AgentProcess;
  readonly connection: AgentConnection;
  /** Of this agent and what it has started. */
  readonly processes: () => number[];
}

export interface AgentOptions {
  readonly limits?: Partial<ConnectionLimits>;
  readonly memoryBytes?: number;
  readonly command?: Partial<AgentProcessOptions['command']>;
}

export function spawnAgent(mode: string, options: AgentOptions = {}) {
  const variable = `HOSTILE_AGENT=${randomUUID()}`;
  const [name = '', value = ''] = variable.split('=');
  const program = new AgentProcess({
    command: {
      file: process.execPath,
      args: [hostileAgent, mode],
      cwd: tmpdir(),
      env: { PATH: process.env['PATH'] ?? '', [name]: value },
      ...options.command,
    },
    secrets: ['hostile-secret'],
    memoryBytes: options.memoryBytes ?? 2 ** 40,
  });
  return { program, processes: () => processesWith(variable) };
}

/** Starts the hostile agent with a session. */
export async function startAgent(mode: string, options: AgentOptions = {}): Promise<StartedAgent> {
  const { program, processes } = spawnAgent(mode, options);
  const client = new RecordingClient();
  const connection = await connectAgent(program, client, {
    clock: systemClock,
    limits: options.limits ?? {},
  });
  const { sessionId } = await connection.agent.request('session/new', { cwd: '/', mcpServers: [] });
  client.sessionId = sessionId;
  return { client, program, connection, processes };
}

export function prompt({ agent }: AgentConnection, text = 'Go') {
  return agent.request('session/prompt', {
    sessionId: 'session',
    prompt: [{ type: 'text', text }],
  });
}
