import { describe, expect, it } from 'vitest';
import { agentTool } from '../src/agent.ts';
import { createToolContext } from './support/tool-context.ts';

describe('the tool that gives work to another agent', () => {
  it('takes a task, and if need be the name of a certain agent', () => {
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
  ])('leaves a model no say in anything else: %j', (input) => {
    expect(agentTool.validate(input).ok).toBe(false);
  });

  it('is done by a sub-agent that has its task from the prompt alone', () => {
    expect(agentTool.delegates?.({ prompt: 'Find it' })).toStrictEqual({ prompt: 'Find it' });
    expect(agentTool.delegates?.({ prompt: 'Find it', agent: 'researcher' })).toStrictEqual({
      prompt: 'Find it',
      agent: 'researcher',
    });
  });

  it('needs nobody’s approval: what the sub-agent does goes through the gate itself', () => {
    expect(agentTool).toMatchObject({ name: 'agent', allowedByDefault: true });
  });

  it('tells models all that they need to know about it', () => {
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
    await expect(call).rejects.toThrow('agent is done by a sub-agent');
  });
});
