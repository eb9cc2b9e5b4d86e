import { once } from 'node:events';
import type { Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { systemClock } from '@relay/core';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type AgentEnd, connectAgent } from '../../src/acp/connection.ts';
import {
  type AgentOptions,
  prompt,
  RecordingClient,
  spawnAgent,
  startAgent,
} from './agent-fixture.ts';

async function start(mode: string, options?: AgentOptions) {
  const agent = await startAgent(mode, options);
  onTestFinished(() => agent.connection.close());
  return agent;
}

interface Case {
  readonly mode: string;
  readonly reason: RegExp;
  readonly options?: AgentOptions;
}

const megabyte = 1024 * 1024;

describe('an agent that cannot be initialized', () => {
  it.each<Case>([
    {
      mode: 'hangs-in-initialize',
      reason: /^The agent did not answer initialize within 0\.3 s$/,
      options: { limits: { initializeMs: 300 } },
    },
    {
      mode: 'exits-in-initialize',
      reason: /^The agent exited with code 1: You are not logged in$/,
    },
    { mode: 'other-version', reason: /It speaks version 99 of ACP, and Relay version 1$/ },
    { mode: 'invalid-initialize', reason: /The agent answered initialize with an invalid result/ },
    {
      mode: 'not-installed',
      reason: /^The agent cannot be started: spawn \/nowhere\/agent ENOENT$/,
      options: { command: { file: '/nowhere/agent' } },
    },
  ])('is reported and ended: $mode', async ({ mode, reason, options }) => {
    const { program, processes } = spawnAgent(mode, options);
    const connecting = connectAgent(program, new RecordingClient(), {
      clock: systemClock,
      limits: options?.limits ?? {},
    });
    await expect(connecting).rejects.toThrow(reason);
    expect(processes()).toEqual([]);
  });
});

describe('an agent that breaks the protocol so that it is ended', () => {
  it.each<Case>([
    {
      mode: 'garbage-flood',
      reason:
        /^The agent broke the protocol 101 times within a minute; it sent a line that is no message of ACP: "Segmentation fault"/,
    },
    { mode: 'huge-message', reason: /^The agent sent a message of more than 10485760 bytes$/ },
    { mode: 'exits', reason: /^The agent exited with code 3: out of cheese\nkey: \[redacted\]$/ },
    { mode: 'children-and-exits', reason: /^The agent exited with code 0$/ },
    { mode: 'stderr-flood', reason: /^The agent exited with code 1: …?.*the end of it$/ },
    {
      mode: 'memory',
      reason: /^The agent and what it has started use more than 300 MB of memory$/,
      options: { memoryBytes: 300 * megabyte },
    },
    { mode: 'closes-output', reason: /^The agent closed its output$/ },
  ])(
    '$mode: it ends with a reason, and nothing of it is left',
    async ({ mode, reason, options }) => {
      const { connection, processes } = await start(mode, options);
      await expect(prompt(connection)).rejects.toThrow();
      expect((await connection.closed).reason).toMatch(reason);
      expect(processes()).toEqual([]);
    },
  );

  it('does-not-read: it is ended before its input fills the memory', async () => {
    const { connection, processes } = await start('does-not-read', {
      limits: { unreadBytes: megabyte },
    });
    const long = 'x'.repeat(megabyte);
    await Promise.allSettled([prompt(connection, long), prompt(connection, long)]);
    expect((await connection.closed).reason).toBe('The agent does not read its input');
    expect(processes()).toEqual([]);
  });
});

describe('an agent that breaks the protocol and goes on', () => {
  it.each<readonly [mode: string, answers: readonly RegExp[], violations: readonly RegExp[]]>([
    ['garbage', [], [/^The agent sent a line that is no message of ACP: "npm warn deprecated"$/]],
    ['unknown-method', [/"id":0,"error":\{"code":-32601/, /"id":1,"error":\{"code":-32601/], []],
    [
      'invalid-permission',
      [/"id":0,"error":\{"code":-32602/, /"id":1,"error":\{"code":-32602/],
      [],
    ],
    ['unknown-session', [/"id":0,"error":\{"code":-32002/], []],
    ['invalid-updates', [], [/^The agent sent an invalid session\/update: /]],
    ['answers-nothing', [], [/^The agent sent an answer to no request, with the id "999"$/]],
  ])('%s: it receives an error, and the session a report', async (mode, answers, violations) => {
    const { client, connection, processes } = await start(mode);
    expect(await prompt(connection)).toMatchObject({ stopReason: 'end_turn' });
    expect(client.texts).toHaveLength(answers.length);
    for (const [index, answer] of answers.entries()) expect(client.texts[index]).toMatch(answer);
    expect(client.violations).toHaveLength(violations.length);
    for (const [index, violation] of violations.entries()) {
      expect(client.violations[index]).toMatch(violation);
    }
    expect(client.permissions).toBe(0);
    await connection.close();
    expect(processes()).toEqual([]);
  });

  it('uses the id of an open request: the second request is refused, and the first is answered', async () => {
    const { client, connection } = await start('same-id-twice');
    const answer = Promise.withResolvers<void>();
    client.answer = answer.promise;
    const prompting = prompt(connection);
    await expect
      .poll(() => client.violations)
      .toEqual(['The agent sent a request with the id 7, which an open request has']);
    answer.resolve();
    await prompting;
    expect(client.permissions).toBe(1);
    expect(client.texts[0]).toMatch(/"id":null,"error":\{"code":-32600/);
    expect(client.texts[1]).toMatch(/"id":7,"result":/);
  });

  it('has only the valid parts of an update read', async () => {
    const { client, connection } = await start('invalid-updates');
    await prompt(connection);
    expect(client.updates).toEqual([
      { sessionUpdate: 'tool_call_update', toolCallId: 'c', status: undefined, content: [] },
    ]);
  });

  it('answers a prompt with nonsense: the prompt fails, and the next can be made', async () => {
    const { connection } = await start('invalid-result');
    await expect(prompt(connection)).rejects.toThrow(
      'The agent answered session/prompt with an invalid result: stopReason',
    );
    await expect(prompt(connection)).rejects.toThrow('invalid result');
  });

  it('floods updates: no more is read while one is handled', async () => {
    const { client, connection, program } = await start('update-flood');
    const gate = Promise.withResolvers<void>();
    client.gate = gate.promise;
    void prompt(connection).catch(() => undefined);
    await expect.poll(() => client.updates.length).toBe(1);
    const output = program.output as Socket;
    let before = -1;
    await expect
      .poll(() => {
        const isSteady = output.bytesRead === before;
        before = output.bytesRead;
        return isSteady;
      })
      .toBe(true);
    expect(output.bytesRead).toBeLessThan(megabyte);
    expect(client.updates).toHaveLength(1);
    gate.resolve();
    await expect.poll(() => client.updates.length).toBeGreaterThan(1_000);
  });

  it('floods requests: only some are open at a time, the others are refused', async () => {
    const { client, connection } = await start('request-flood', { limits: { openRequests: 64 } });
    client.answer = new Promise(() => undefined);
    void prompt(connection).catch(() => undefined);
    await expect
      .poll(() => client.violations)
      .toEqual(['The agent sent more than 64 requests at a time']);
    await connection.closed;
    expect(client.permissions).toBe(64);
  });

  it('sends updates after the end of the turn, but none after the end of the connection', async () => {
    const { client, connection } = await start('after-the-end');
    await prompt(connection);
    await expect.poll(() => client.texts).toEqual(['one more thing']);
    client.texts.length = 0;
    void prompt(connection).catch(() => undefined);
    await connection.close();
    expect(client.texts.length).toBeLessThanOrEqual(1);
    const { length } = client.texts;
    await expect(prompt(connection)).rejects.toThrow('The agent was stopped');
    expect(client.texts).toHaveLength(length);
  });
});

describe('an agent that closes its input', () => {
  it('is ended, and what it sends meanwhile does no harm', async () => {
    const [input, output] = [new PassThrough(), new PassThrough()];
    const ended = Promise.withResolvers<AgentEnd>();
    const end = (reason: string) => Promise.resolve(ended.resolve({ reason }));
    const program = { input, output, ended: ended.promise, end, kill: end };
    const connecting = connectAgent(program, new RecordingClient(), { clock: systemClock });
    connecting.catch(() => undefined);
    await once(input, 'data');
    input.destroy();
    const request = { jsonrpc: '2.0', id: 1, method: 'session/request_permission', params: {} };
    output.write(`${JSON.stringify(request)}\n`.repeat(3));
    await expect(connecting).rejects.toThrow('The agent closed its input');
    output.write(`${JSON.stringify(request)}\n`.repeat(3));
    await once(output.end(), 'close');
  });
});

describe('the end of an agent', () => {
  it('takes its children with it, also those with a session of their own that ignore SIGTERM', async () => {
    const { connection, processes } = await start('children');
    await prompt(connection);
    expect(processes().length).toBeGreaterThanOrEqual(3);
    await connection.close();
    expect(processes()).toEqual([]);
  });

  it('is forced if it ignores the end of its input and SIGTERM', async () => {
    const { connection, processes } = await start('ignores-the-end');
    expect(processes()).toHaveLength(1);
    await connection.close();
    expect(processes()).toEqual([]);
    expect((await connection.closed).reason).toBe('The agent was stopped');
  });

  it('withdraws the requests that are open', async () => {
    const { client, connection } = await start('same-id-twice');
    client.answer = new Promise(() => undefined);
    const prompting = prompt(connection);
    await expect.poll(() => client.permissions).toBe(1);
    await connection.close('The agent was released');
    await expect(prompting).rejects.toThrow('The agent was released');
    expect(client.withdrawn).toBe(1);
  });
});
