import { describe, expect, it } from 'vitest';
import type { ToolContext } from '../../../src/ports/index.ts';
import { handoffTool, handoffToolName } from '../../../src/run/agents/profile.ts';

const tool = handoffTool([
  { name: 'researcher', description: 'Finds things out' },
  { name: 'writer', instructions: 'hidden', model: 'hidden', tools: ['hidden'] },
]);

describe('the handoff tool', () => {
  it('offers those agents by name, and no others', () => {
    expect(tool.name).toBe(handoffToolName);
    expect(tool.inputSchema).toEqual({
      type: 'object',
      properties: { agent: { type: 'string', enum: ['researcher', 'writer'] } },
      required: ['agent'],
      additionalProperties: false,
    });
  });

  it('names the targets with their descriptions and nothing else', () => {
    expect(tool.description).toContain('\n- researcher: Finds things out\n- writer');
    expect(JSON.stringify(tool)).not.toContain('hidden');
  });

  it.each(['researcher', 'writer'])('takes %s', (agent) => {
    expect(tool.validate({ agent })).toEqual({ ok: true, value: { agent } });
  });

  it.each([
    { agent: 'painter' },
    { agent: 'Writer' },
    { agent: '' },
    { agent: ['writer'] },
    { agent: null },
    {},
    null,
    undefined,
    'writer',
    [],
  ])('refuses %j and says whom there is', (input) => {
    expect(tool.validate(input)).toEqual({
      ok: false,
      issues: [{ path: 'agent', message: 'Must be one of researcher, writer' }],
    });
  });

  it('keeps nothing of its input but the agent', () => {
    expect(tool.validate({ agent: 'writer', note: 'x' })).toEqual({
      ok: true,
      value: { agent: 'writer' },
    });
  });

  it('needs no approval and is idempotent', () => {
    expect(tool).toMatchObject({ allowedByDefault: true, idempotent: true, onUnknown: 'fail' });
  });

  it('is not executed: the run itself hands off', async () => {
    const call = tool.execute({ agent: 'writer' }, {} as ToolContext);
    await expect(call).rejects.toThrow(TypeError);
  });
});
