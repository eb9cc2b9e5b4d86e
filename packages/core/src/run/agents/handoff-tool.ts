import type { AgentDefinition, Tool } from '../../ports/index.ts';

export const handoffToolName = 'handoff';

/** How an agent hands the conversation over to one of those that it may. */
export function handoffTool(targets: readonly AgentDefinition[]): Tool {
  const names = targets.map(({ name }) => name);
  const about = targets.map(({ name, description }) =>
    description === undefined ? `- ${name}` : `- ${name}: ${description}`,
  );
  return {
    name: handoffToolName,
    description: `Hand this conversation over to another agent, who goes on with it:\n${about.join('\n')}`,
    inputSchema: {
      type: 'object',
      properties: { agent: { type: 'string', enum: names } },
      required: ['agent'],
      additionalProperties: false,
    },
    allowedByDefault: true,
    idempotent: true,
    onUnknown: 'fail',
    validate(input) {
      const { agent } = (input ?? {}) as { agent?: unknown };
      if (typeof agent === 'string' && names.includes(agent)) return { ok: true, value: { agent } };
      const message = `Must be one of ${names.join(', ')}`;
      return { ok: false, issues: [{ path: 'agent', message }] };
    },
    execute: () => Promise.reject(new TypeError('A handoff is not executed')),
  };
}
