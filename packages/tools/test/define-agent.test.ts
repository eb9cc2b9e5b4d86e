import { createAgentRegistry } from '@relay/core';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { agentTool } from '../src/builtin/agent.ts';
import {
  type AgentConfig,
  assembleAgents,
  defineAgent,
  ToolCollection,
} from '../src/define-agent.ts';
import type { ToolDefinition } from '../src/define-tool.ts';

const look: ToolDefinition = {
  name: 'look',
  description: 'Looks.',
  schema: z.object({}),
  execute: () => ({}),
};

describe('an agent', () => {
  it('is a frozen copy of its configuration', () => {
    const config = { name: 'writer', instructions: 'Write', tools: [look, 'bash'] };
    const agent = defineAgent(config);
    expect(agent).toEqual(config);
    expect(Object.isFrozen(agent)).toBe(true);
    expect(Object.isFrozen(config)).toBe(false);
  });

  it('is checked also without defineAgent', () => {
    const plain = { name: 'writer', instruction: 'Write' };
    expect(() => assembleAgents([plain])).toThrow(
      'The agent writer has an unknown field instruction; did you mean instructions?',
    );
    const wrong = { name: 'writer', instructions: 5 } as unknown as AgentConfig;
    expect(() => assembleAgents([wrong])).toThrow('The agent writer: instructions must be a text');
  });

  it('is refused with an unknown field', () => {
    const misspelled = { name: 'writer', instruction: 'Write' } as AgentConfig;
    expect(() => defineAgent(misspelled)).toThrow(
      'The agent writer has an unknown field instruction',
    );
  });
});

describe('assembled agents', () => {
  it('refer to their tools by name, and include them', () => {
    const writer = defineAgent({ name: 'writer', tools: [look, agentTool, 'bash'], model: 'big' });
    const { agents, tools } = assembleAgents([writer]);
    expect(agents).toEqual([{ name: 'writer', model: 'big', tools: ['look', 'agent', 'bash'] }]);
    expect(tools.map(({ name }) => name)).toEqual(['look', 'agent']);
    expect(tools[1]).toBe(agentTool);
    expect(tools[0]?.validate({}).ok).toBe(true);
  });

  it('may have memory with a valid namespace', () => {
    const memory = { namespace: 'house' };
    const { agents } = assembleAgents([defineAgent({ name: 'butler', memory })]);
    expect(agents).toEqual([{ name: 'butler', memory }]);
    expect(assembleAgents([{ name: 'b', memory: true }]).agents).toEqual([
      { name: 'b', memory: true },
    ]);
    for (const wrong of [{ namespace: '' }, { namespace: 'x'.repeat(129) }, {}, 'house']) {
      const config = { name: 'butler', memory: wrong as { namespace: string } };
      expect(() => assembleAgents([config])).toThrow(
        'The memory of the agent butler must be true or {namespace}',
      );
    }
  });

  it('leave out undefined fields, so that they are inherited', () => {
    expect(assembleAgents([{ name: 'writer' }]).agents[0]).toStrictEqual({ name: 'writer' });
    expect(assembleAgents([{ name: 'writer', tools: [] }]).agents[0]).toStrictEqual({
      name: 'writer',
      tools: [],
    });
  });

  it('include the agents that they hand off to, each once, at any depth', () => {
    const checker = defineAgent({ name: 'checker', tools: [look] });
    const writer = defineAgent({ name: 'writer', handoffs: [checker], tools: [look] });
    const first = defineAgent({ name: 'first', handoffs: [writer, checker] });
    const { agents, tools } = assembleAgents([first, checker]);
    expect(agents.map(({ name }) => name)).toEqual(['first', 'writer', 'checker']);
    expect(agents[0]?.handoffs).toEqual(['writer', 'checker']);
    expect(tools).toHaveLength(1);
    expect(() => createAgentRegistry(agents)).not.toThrow();
  });

  it('may refer to each other by name', () => {
    const one = defineAgent({ name: 'one', handoffs: ['two'] });
    const two = defineAgent({ name: 'two', handoffs: [one] });
    const { agents } = assembleAgents([two]);
    expect(agents.map(({ name, handoffs }) => [name, handoffs])).toEqual([
      ['two', ['one']],
      ['one', ['two']],
    ]);
  });

  it('are refused if two of them, or two of their tools, have the same name', () => {
    const twice = [defineAgent({ name: 'a' }), defineAgent({ name: 'a' })];
    expect(() => assembleAgents(twice)).toThrow('Two agents are named a');
    const tools = [
      { name: 'a', tools: [look] },
      { name: 'b', tools: [{ ...look }] },
    ];
    expect(() => assembleAgents(tools)).toThrow('Two tools are named look');
  });
});

describe('the output schema of an agent', () => {
  const schemaOf = (outputSchema: NonNullable<AgentConfig['outputSchema']>) =>
    assembleAgents([{ name: 'finder', outputSchema }]).agents[0]?.outputSchema;

  it('is a JSON Schema or a zod schema', () => {
    const schema = { type: 'object', properties: { city: { type: 'string' } } };
    expect(schemaOf(schema)).toEqual(schema);
    expect(schemaOf(z.object({ city: z.string() }))).toMatchObject({
      ...schema,
      required: ['city'],
    });
  });

  it('is refused if it could not be checked', () => {
    expect(() => schemaOf({ type: 'objekt' })).toThrow(
      'The agent finder: outputSchema: type: Must be one of object',
    );
    expect(() => schemaOf({ $ref: 'https://example.com' })).toThrow(
      '$ref: Must be a local reference',
    );
  });

  it('may be combined with a reasoning effort', () => {
    expect(assembleAgents([{ name: 'a', reasoning: 'low' }]).agents).toEqual([
      { name: 'a', reasoning: 'low' },
    ]);
    const odd = { name: 'a', reasoning: 'hard' } as unknown as AgentConfig;
    expect(() => assembleAgents([odd])).toThrow('there is no reasoning hard');
  });
});

describe('a collection of tools', () => {
  it('creates the tool of a definition once, and returns its name', () => {
    const tools = new ToolCollection();
    expect([tools.add(look), tools.add(look), tools.add('elsewhere')]).toEqual([
      'look',
      'look',
      'elsewhere',
    ]);
    expect(tools.all.map(({ name }) => name)).toEqual(['look']);
  });
});
