import { describe, expect, it } from 'vitest';
import type { ToolContext } from '../../src/ports/index.ts';
import { createRecordingTool } from './index.ts';

function contextOf(more: Partial<ToolContext> = {}): ToolContext {
  return {
    signal: new AbortController().signal,
    tenantId: 't',
    runId: 'r',
    agentId: 'a',
    toolCallId: 'call_1',
    allowedBy: 'rule',
    idempotencyKey: 'r:call_1',
    context: {},
    progress: () => undefined,
    spawn: () => Promise.reject(new Error('There is no run')),
    ask: () => Promise.reject(new Error('There is no run')),
    ...more,
  };
}

const soon = () =>
  new Promise((resolve) => {
    setTimeout(resolve, 5);
  });

describe('a recording tool', () => {
  it('is neither allowed nor idempotent by default', () => {
    expect(createRecordingTool({ name: 'pay' })).toMatchObject({
      name: 'pay',
      allowedByDefault: false,
      idempotent: false,
      onUnknown: 'ask',
    });
    const told = { allowedByDefault: true, idempotent: true, onUnknown: 'fail' } as const;
    expect(createRecordingTool({ name: 'look', ...told })).toMatchObject(told);
  });

  it('records each execution with its input and key', async () => {
    const tool = createRecordingTool({ name: 'pay' });
    expect(await tool.execute({ n: 1 }, contextOf())).toEqual({ result: { ran: 'pay' } });
    await tool.execute({ n: 2 }, contextOf({ toolCallId: 'call_2', idempotencyKey: 'k' }));
    expect(tool.executions).toEqual([
      { input: { n: 1 }, toolCallId: 'call_1', idempotencyKey: 'r:call_1' },
      { input: { n: 2 }, toolCallId: 'call_2', idempotencyKey: 'k' },
    ]);
  });

  it('returns the configured result', async () => {
    const tool = createRecordingTool({ name: 'add', execute: (input) => ({ result: input }) });
    expect(await tool.execute(7, contextOf())).toEqual({ result: 7 });
  });

  it('accepts any input by default', () => {
    expect(createRecordingTool({ name: 'a' }).validate(3)).toEqual({ ok: true, value: 3 });
    const refusal = { ok: false, issues: [{ path: 'n', message: 'missing' }] } as const;
    expect(createRecordingTool({ name: 'a', validate: () => refusal }).validate({})).toBe(refusal);
  });

  it('waits while it is held, having recorded that it began', async () => {
    const tool = createRecordingTool({ name: 'pay' });
    tool.hold();
    let done = false;
    const running = tool.execute({}, contextOf()).then(() => {
      done = true;
    });
    await soon();
    expect([tool.executions.length, done]).toEqual([1, false]);
    tool.release();
    await running;
    await tool.execute({}, contextOf());
  });

  it('ends when its run is canceled while it is held', async () => {
    const tool = createRecordingTool({ name: 'pay' });
    const controller = new AbortController();
    tool.hold();
    const running = tool.execute({}, contextOf({ signal: controller.signal }));
    controller.abort();
    await expect(running).rejects.toThrow('The call was aborted');
  });

  it('throws the configured error until it is reset', async () => {
    const tool = createRecordingTool({ name: 'pay' });
    const error = new Error('No funds');
    tool.failWith(error);
    await expect(tool.execute({}, contextOf())).rejects.toBe(error);
    tool.failWith(undefined);
    await expect(tool.execute({}, contextOf())).resolves.toBeDefined();
    expect(tool.executions).toHaveLength(2);
  });

  it('reports progress before it waits', async () => {
    const tool = createRecordingTool({ name: 'pay' });
    const reported: string[] = [];
    tool.reportProgress(['half', 'most']);
    tool.hold();
    const running = tool.execute({}, contextOf({ progress: (line) => reported.push(line) }));
    await soon();
    expect(reported).toEqual(['half', 'most']);
    tool.release();
    await running;
  });
});
