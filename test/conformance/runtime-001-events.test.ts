/** 001: the events of POST /api/chat, from a started server. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Frame } from '../support/frames.ts';
import { say } from './runtime-client.ts';
import { StoreServer } from './store-server.ts';
import { verifies } from './verifies.ts';

const server = new StoreServer();
beforeAll(() => server.start());
afterAll(() => server.dispose());

async function played(message: string): Promise<{ runId: string; frames: Frame[] }> {
  const { runId, reader } = await say(server, message);
  return { runId, frames: await reader.rest() };
}

function of(frames: readonly Frame[], type: string): Frame['data'][] {
  return frames.map(({ data }) => data).filter((data) => data.type === type);
}

async function runOf(runId: string): Promise<Record<string, unknown>> {
  return (await (await server.request(`/v1/runs/${runId}`)).json()) as Record<string, unknown>;
}

/** Answers what a run waits for, as its reader would. */
async function answerAll(runId: string, approved: boolean): Promise<void> {
  const log = await server.request(`/v1/runs/${runId}/events`);
  const { events } = (await log.json()) as { events: { type: string; approvalId: string }[] };
  for (const { approvalId } of events.filter(({ type }) => type === 'approval.requested')) {
    await server.request(`/v1/approvals/${approvalId}`, { body: { approved } });
  }
}

describe('text_delta', () => {
  test('carries a piece of the answer, and all of them in order are the answer', async () => {
    verifies('001:events:text-delta', '001:events:text-delta-sum');
    const { runId, frames } = await played('say 40');
    const deltas = of(frames, 'text_delta');
    expect(deltas).toHaveLength(40);
    for (const delta of deltas) {
      expect(delta).toEqual({ type: 'text_delta', content: expect.stringMatching(/^ ?\d+$/) });
    }
    const text = deltas.map(({ content }) => String(content)).join('');
    expect(text).toBe(Array.from({ length: 40 }, (_, index) => index + 1).join(' '));
    expect((await runOf(runId))['output']).toBe(text);
  });
});

describe('tool_approval_requested', () => {
  test('is sent with the call that needs approval, and the tool does not run', async () => {
    verifies(
      '001:events:approval-requested',
      '001:events:approval-requested-payload',
      '001:approval-flow:requested',
    );
    const { runId, reader } = await say(server, 'notify wait for me');
    const { data } = await reader.until('tool_approval_requested');
    expect(data).toMatchObject({
      name: 'send_note',
      args: { to: 'operator', text: 'wait for me' },
      toolCallId: 'call_1',
      runId,
    });
    await reader.until('agent_progress');
    expect((await runOf(runId))['status']).toBe('waiting');
    expect(of(reader.seen, 'tool_start')).toEqual([]);
    expect(server.notes).toEqual([]);
    await answerAll(runId, false);
    const frames = await reader.rest();
    expect(of(frames, 'tool_approval_requested')).toHaveLength(1);
    expect(of(frames, 'tool_start')).toEqual([]);
    expect(server.notes).toEqual([]);
  });

  test('is not sent for a call that needs none', async () => {
    verifies('001:events:approval-requested');
    const { frames } = await played('calculate 1+2');
    expect(of(frames, 'tool_approval_requested')).toEqual([]);
  });
});

describe('tool_start and tool_end', () => {
  test('are sent when a tool invocation started and when it completed', async () => {
    verifies(
      '001:events:tool-start',
      '001:events:tool-start-payload',
      '001:events:tool-end-payload',
    );
    const { frames } = await played('calculate 23*47');
    expect(frames.map(({ data }) => data).filter(({ type }) => type.startsWith('tool_'))).toEqual([
      {
        type: 'tool_start',
        name: 'calculator',
        args: { a: 23, b: 47, op: '*' },
        toolCallId: 'call_1',
      },
      {
        type: 'tool_end',
        name: 'calculator',
        result: 1081,
        status: 'succeeded',
        toolCallId: 'call_1',
      },
    ]);
  });

  test('are sent for a tool invocation that failed', async () => {
    verifies('001:events:tool-end-payload');
    const { frames } = await played('calculate 1/0');
    expect(of(frames, 'tool_start')).toHaveLength(1);
    expect(of(frames, 'tool_end')).toEqual([
      {
        type: 'tool_end',
        name: 'calculator',
        result: expect.objectContaining({ error: '1 cannot be divided by zero' }),
        status: 'failed',
        toolCallId: 'call_1',
      },
    ]);
  });
});

describe('agent_progress', () => {
  test('reports each change of the run’s state', async () => {
    verifies(
      '001:events:agent-progress',
      '001:events:agent-progress-payload',
      '001:events:agent-progress-tools-invoked',
      '001:events:agent-progress-run-state',
      '001:events:agent-progress-correlation-id',
    );
    const input =
      'use nothing {}\nuse calculator {"a":1,"b":2,"op":"+"}\nuse send_note {"to":"a","text":"b"}';
    const { runId, reader } = await say(server, input, { headers: { 'x-request-id': 'req-42' } });
    const waiting = async () => {
      const frame = await reader.until('agent_progress');
      return frame.data['status'] === 'waiting' ? frame : undefined;
    };
    while ((await waiting()) === undefined);
    await answerAll(runId, true);
    const frames = await reader.rest();
    const common = { type: 'agent_progress', runId, correlationId: 'req-42' };
    const said = 'I have no tool named nothing.';
    expect(of(frames, 'agent_progress')).toEqual([
      { ...common, status: 'running', runState: 'running', partialOutput: '', toolsInvoked: [] },
      {
        ...common,
        status: 'waiting',
        runState: 'waiting',
        partialOutput: said,
        toolsInvoked: ['calculator'],
      },
      {
        ...common,
        status: 'running',
        runState: 'running',
        partialOutput: said,
        toolsInvoked: ['calculator'],
      },
      {
        ...common,
        status: 'running',
        runState: 'running',
        partialOutput: said,
        toolsInvoked: ['calculator', 'send_note'],
      },
      {
        ...common,
        status: 'succeeded',
        runState: 'succeeded',
        partialOutput: (await runOf(runId))['output'],
        toolsInvoked: ['calculator', 'send_note'],
      },
    ]);
  });

  test('has the last 2,000 characters of the answer when the run has ended', async () => {
    verifies('001:events:agent-progress', '001:events:agent-progress-payload');
    const { runId, frames } = await played('say 1000');
    const { output } = await runOf(runId);
    const progress = of(frames, 'agent_progress');
    expect(progress.map(({ status }) => status)).toEqual(['running', 'succeeded']);
    expect(String(output).length).toBeGreaterThan(2000);
    expect(progress.at(-1)?.['partialOutput']).toBe(String(output).slice(-2000));
  });

  test.each([
    ['fail 400', 'failed'],
    ['calculate 1/0', 'succeeded'],
  ])('reports how a run ended: %s', async (input, status) => {
    verifies('001:events:agent-progress');
    const { frames } = await played(input);
    const types = frames.map(({ data }) => data.type);
    expect(of(frames, 'agent_progress').at(-1)).toMatchObject({ status, runState: status });
    expect(types.slice(-3)).toEqual(['agent_progress', 'agent_summary', 'done']);
  });
});

describe('agent_summary', () => {
  test('summarizes the evidence for the answer at the end', async () => {
    verifies('001:events:agent-summary', '001:events:agent-summary-payload');
    const { runId, frames } = await played(
      'use calculator {"a":6,"b":7,"op":"*"}\nuse calculator {"a":1,"b":0,"op":"/"}',
    );
    const types = frames.map(({ data }) => data.type);
    expect(types.slice(-2)).toEqual(['agent_summary', 'done']);
    expect(types.filter((type) => type === 'agent_summary')).toHaveLength(1);
    expect(of(frames, 'agent_summary')).toEqual([
      {
        type: 'agent_summary',
        runId,
        trust: expect.objectContaining({
          toolsInvoked: ['calculator'],
          toolFailures: 1,
          evidenceCitations: [{ toolCallId: 'call_1', tool: 'calculator' }],
          evidenceHash: expect.stringMatching(/^[0-9a-f]{64}$/),
          confidence: 0.5,
        }),
      },
    ]);
  });
});

describe('done', () => {
  test('is the last event: succeeded for a run that completed', async () => {
    verifies('001:events:done', '001:events:done-payload', '001:events:done-succeeded');
    const { runId, frames } = await played('say 3');
    const { conversationId, status } = await runOf(runId);
    expect(status).toBe('completed');
    expect(of(frames, 'done')).toEqual([
      { type: 'done', runId, status: 'succeeded', conversationId, finishReason: 'stop' },
    ]);
    expect(frames.at(-1)?.data.type).toBe('done');
  });

  test.each(['fail 400', 'fail 503'])(
    'is failed for a run that failed, after an error that says why: %s',
    async (input) => {
      verifies(
        '001:events:done-failed',
        '001:events:error-runtime',
        '001:failure:done-after-failure',
      );
      const { runId, frames } = await played(input);
      expect((await runOf(runId))['status']).toBe('failed');
      const errors = of(frames, 'error');
      expect(errors).toHaveLength(1);
      expect(errors[0]).toMatchObject({
        error: `The demo provider answered ${input.slice('fail '.length)}`,
      });
      expect(of(frames, 'done')).toHaveLength(1);
      expect(frames.at(-1)?.data).toMatchObject({ type: 'done', runId, status: 'failed' });
      expect(frames.findIndex(({ data }) => data.type === 'error')).toBeLessThan(frames.length - 1);
    },
  );

  test.each([
    ['in the middle of its answer', 'slow 600000', 'text_delta'],
    ['while it waits for a person', 'notify nobody', 'tool_approval_requested'],
  ])('is canceled for a run that was canceled %s', async (_, input, type) => {
    verifies(
      '001:events:done-canceled',
      '001:failure:done-after-cancel',
      // It comes while the model has not finished.
      '001:events:text-delta',
    );
    const { runId, reader } = await say(server, input);
    await reader.until(type);
    await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
    const frames = await reader.rest();
    expect(of(frames, 'done')).toHaveLength(1);
    expect(frames.at(-1)?.data).toMatchObject({ type: 'done', runId, status: 'canceled' });
    expect((await runOf(runId))['status']).toBe('canceled');
  });
});
