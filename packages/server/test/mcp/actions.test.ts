import { uuidv7 } from 'uuidv7';
import { describe, expect, it } from 'vitest';
import { invocationAnswer, toolOf } from '../../src/mcp/actions.ts';

describe('the result of an action', () => {
  const id = uuidv7();

  it('says how to get it later if the invocation has not ended', () => {
    expect(invocationAnswer({ id, action: 'deploy', status: 'running' })).toEqual({
      text: `deploy is still running: ask get_invocation for ${id}`,
      data: { id, status: 'running' },
    });
    const approvalId = uuidv7();
    expect(invocationAnswer({ id, action: 'deploy', status: 'waiting', approvalId })).toEqual({
      text: `deploy waits for an approval: ask get_invocation for ${id}`,
      data: { id, status: 'waiting', approvalId },
    });
  });

  it('is a text as it is, and any other value as JSON', () => {
    const answerOf = (output: unknown) =>
      invocationAnswer({ id, action: 'a', status: 'completed', output }).text;
    expect(['two\nlines', { a: 1 }, null, 0].map(answerOf)).toEqual([
      'two\nlines',
      '{"a":1}',
      'null',
      '0',
    ]);
  });
});

describe('the tool of an action', () => {
  it('has no parameters that clients must repeat as HTTP headers', () => {
    const inputSchema = {
      type: 'object',
      properties: {
        region: { type: 'string', 'x-mcp-header': 'Region' },
        'x-mcp-header': { type: 'string' },
      },
    };
    const action = { name: 'go', description: 'Goes', inputSchema, idempotent: false };
    expect(toolOf(action)).toEqual({
      name: 'action_go',
      description: 'Goes',
      inputSchema: {
        type: 'object',
        properties: { region: { type: 'string' }, 'x-mcp-header': { type: 'string' } },
      },
    });
    expect(toolOf({ ...action, idempotent: true }).annotations).toEqual({ idempotentHint: true });
  });
});
