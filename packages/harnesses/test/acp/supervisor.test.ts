import { type ClientContext, RequestError } from '@agentclientprotocol/sdk';
import { describe, expect, it } from 'vitest';
import { ManualClock } from '../../../core/test/support/index.ts';
import type { AgentConnection } from '../../src/acp/connection.ts';
import { AgentSupervisor, type AgentSupervisorOptions } from '../../src/acp/supervisor.ts';
import { RecordingClient } from './agent-fixture.ts';

class FakeConnection implements AgentConnection {
  readonly initialized = { protocolVersion: 1 };
  readonly agent = {} as ClientContext;
  readonly #end = Promise.withResolvers<{ reason: string }>();
  readonly closed = this.#end.promise;
  lastActiveAt = 0;
  isOpen = true;

  exit(reason: string): void {
    this.isOpen = false;
    this.#end.resolve({ reason });
  }

  close(reason = 'The agent was stopped'): Promise<void> {
    this.exit(reason);
    return Promise.resolve();
  }
}

/** Time passes for promises. */
const settle = () => new Promise((resolve) => setImmediate(resolve));

function supervise(overrides: Partial<AgentSupervisorOptions> = {}) {
  const clock = new ManualClock();
  const connections: FakeConnection[] = [];
  const reports: string[] = [];
  let most = 0;
  const supervisor = new AgentSupervisor({
    connect: async () => {
      await settle();
      const connection = new FakeConnection();
      connection.lastActiveAt = clock.now();
      connections.push(connection);
      most = Math.max(most, connections.filter(({ isOpen }) => isOpen).length);
      return connection;
    },
    client: new RecordingClient(),
    onConnected: async () => void reports.push('connected'),
    onLost: (reason) => reports.push(`lost: ${reason}`),
    onFailed: (reason) => reports.push(`failed: ${reason}`),
    canResume: () => true,
    isIdle: () => true,
    clock,
    ...overrides,
  });
  return { supervisor, clock, connections, reports, mostAtATime: () => most };
}

const minute = 60_000;

describe('the supervisor of an agent', () => {
  it('sets up the connection that it has started when it is used first, once', async () => {
    const { supervisor, connections, reports } = supervise();
    expect(await supervisor.start()).toEqual({ protocolVersion: 1 });
    expect(reports).toEqual([]);
    const [first, second] = await Promise.all([supervisor.connection(), supervisor.connection()]);
    expect(first).toBe(second);
    expect(reports).toEqual(['connected']);
    expect(connections).toHaveLength(1);
  });

  it('starts an agent that was lost again, never two at a time', async () => {
    const { supervisor, connections, reports, mostAtATime } = supervise();
    await supervisor.start();
    await supervisor.connection();
    connections[0]?.exit('The agent exited with code 1');
    await expect.poll(() => connections).toHaveLength(2);
    expect(await supervisor.connection()).toBe(connections[1]);
    expect(reports).toEqual(['connected', 'lost: The agent exited with code 1', 'connected']);
    expect(mostAtATime()).toBe(1);
  });

  it('waits longer after each loss, and gives up after five restarts', async () => {
    const { supervisor, clock, connections, reports } = supervise();
    await supervisor.connection();
    const pauses: number[] = [];
    for (let losses = 1; losses <= 5; losses += 1) {
      const lostAt = clock.now();
      connections.at(-1)?.exit('Killed');
      await settle();
      while (connections.length <= losses) {
        await clock.advance(10);
        await settle();
      }
      pauses.push(clock.now() - lostAt);
      await supervisor.connection();
    }
    expect(pauses[0]).toBeLessThan(100);
    for (const [index, pause] of pauses.slice(1).entries()) {
      expect(pause).toBeGreaterThanOrEqual(250 * 2 ** index);
    }
    connections.at(-1)?.exit('Killed');
    await settle();
    const reason = 'Killed. It was started 5 times again';
    expect(reports.slice(-2)).toEqual(['lost: Killed', `failed: ${reason}`]);
    await expect(supervisor.connection()).rejects.toThrow(reason);
    await clock.advance(60 * minute);
    expect(connections).toHaveLength(6);
  });

  it('counts losses anew after a stable time', async () => {
    const { supervisor, clock, connections, reports } = supervise();
    for (let losses = 0; losses < 10; losses += 1) {
      await supervisor.connection();
      await clock.advance(minute);
      connections.at(-1)?.exit('Killed');
      await settle();
    }
    await supervisor.connection();
    expect(reports.filter((report) => report.startsWith('failed'))).toEqual([]);
  });

  it('fails at the first loss if the agent cannot resume its session', async () => {
    const { supervisor, connections, reports } = supervise({ canResume: () => false });
    await supervisor.connection();
    connections[0]?.exit('The agent was ended by SIGKILL');
    await settle();
    const reason = 'The agent was ended by SIGKILL. It cannot resume its session';
    expect(reports.slice(1)).toEqual(['lost: The agent was ended by SIGKILL', `failed: ${reason}`]);
  });

  it('does not start an agent again that was never up, and has the cause of its error', async () => {
    const { supervisor, connections, reports } = supervise({
      onConnected: () => {
        throw RequestError.internalError({ details: 'No API key' });
      },
    });
    await supervisor.start();
    await expect(supervisor.connection()).rejects.toThrow('Internal error: No API key');
    expect(reports).toEqual(['failed: Internal error: No API key']);
    expect(connections.map(({ isOpen }) => isOpen)).toEqual([false]);
  });

  it('ends an agent that does not set up its session in time', async () => {
    const { supervisor, clock, connections } = supervise({
      onConnected: async (connection) => {
        throw new Error((await connection.closed).reason);
      },
    });
    const connecting = supervisor.connection();
    connecting.catch(() => undefined);
    await expect.poll(() => connections).toHaveLength(1);
    await clock.advance(minute);
    await expect(connecting).rejects.toThrow('The agent did not set up its session within 60 s');
  });

  it('ends an idle agent after 15 minutes and starts it again when it is used', async () => {
    const { supervisor, clock, connections, reports, mostAtATime } = supervise();
    await supervisor.connection();
    await clock.advance(14 * minute);
    connections[0]!.lastActiveAt = clock.now();
    await clock.advance(14 * minute);
    expect(connections[0]?.isOpen).toBe(true);
    await clock.advance(2 * minute);
    expect(connections[0]?.isOpen).toBe(false);
    expect(reports).toEqual(['connected']);
    expect(await supervisor.connection()).toBe(connections[1]);
    expect(reports).toEqual(['connected', 'connected']);
    expect(mostAtATime()).toBe(1);
  });

  it.each([
    ['is busy', { isIdle: () => false }],
    ['cannot resume its session', { canResume: () => false }],
  ])('does not end an agent that %s', async (_, options) => {
    const { supervisor, clock, connections } = supervise(options);
    await supervisor.connection();
    await clock.advance(24 * 60 * minute);
    expect(connections[0]?.isOpen).toBe(true);
  });

  it('is stopped when the process has ended that it was starting', async () => {
    const starting = Promise.withResolvers<AgentConnection>();
    const { supervisor } = supervise({ connect: () => starting.promise });
    const started = supervisor.start();
    await settle();
    let isStopped = false;
    const stopping = supervisor.stop().then(() => (isStopped = true));
    await settle();
    expect(isStopped).toBe(false);
    starting.reject(new Error('The agent was stopped'));
    await stopping;
    await expect(started).rejects.toThrow('The agent was stopped');
  });

  it('ends the agent for good when it is stopped, at any moment', async () => {
    for (let steps = 0; steps < 12; steps += 1) {
      const { supervisor, clock, connections, reports } = supervise();
      const connecting = supervisor.connection();
      connecting.catch(() => undefined);
      for (let step = 0; step < steps; step += 1) {
        await Promise.resolve();
        if (step === 6) await settle();
        if (step === 8) connections[0]?.exit('Killed');
      }
      await supervisor.stop();
      await clock.advance(60 * minute);
      expect(connections.filter(({ isOpen }) => isOpen)).toEqual([]);
      expect(reports.filter((report) => report.startsWith('failed'))).toEqual([]);
      await expect(supervisor.connection()).rejects.toThrow('The agent was stopped');
    }
  });
});
