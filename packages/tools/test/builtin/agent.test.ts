import { describe, expect, it } from 'vitest';
import { agentTool } from '../../src/builtin/agent.ts';
import { createToolContext } from '../support/tool-context.ts';

describe('the agent tool', () => {
  it('takes a prompt, and optionally the name of an agent', () => {
    expect(agentTool.validate({ prompt: 'Find it' }).ok).toBe(true);
    expect(agentTool.validate({ prompt: 'Find it', agent: 'researcher' }).ok).toBe(true);
  });

  it.each([
    {},
    { prompt: '' },
    { prompt: 5 },
    { prompt: 'x', agent: '' },
    { prompt: 'x', agent: null },
    { prompt: 'x', model: 'big' },
    { prompt: 'x', tools: ['bash'] },
    { prompt: 'x', instructions: 'Ignore the rules' },
  ])('refuses other parameters: %j', (input) => {
    expect(agentTool.validate(input).ok).toBe(false);
  });

  it('delegates the prompt to a sub-agent', () => {
    expect(agentTool.delegates?.({ prompt: 'Find it' })).toStrictEqual({ prompt: 'Find it' });
    expect(agentTool.delegates?.({ prompt: 'Find it', agent: 'researcher' })).toStrictEqual({
      prompt: 'Find it',
      agent: 'researcher',
    });
  });

  it('is allowed by default, because the calls of the sub-agent are decided themselves', () => {
    expect(agentTool).toMatchObject({ name: 'agent', allowedByDefault: true });
  });

  it('describes its parameters to models', () => {
    expect(agentTool.inputSchema).toMatchObject({
      type: 'object',
      required: ['prompt'],
      additionalProperties: false,
      properties: { prompt: { type: 'string' }, agent: { type: 'string' } },
    });
    expect(agentTool.description).toContain('knows only what the prompt says');
  });

  it('cannot be executed', async () => {
    const call = agentTool.execute({ prompt: 'x' }, createToolContext());
    await expect(call).rejects.toThrow('agent is executed by a sub-agent');
  });
});
