import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createAgentRegistry } from '../../../src/run/agents/registry.ts';
import type { AgentDefinition } from '../../../src/ports/index.ts';

describe('the registry of agents', () => {
  const writer: AgentDefinition = { name: 'writer', handoffs: ['researcher'] };
  const researcher: AgentDefinition = { name: 'researcher', handoffs: ['writer'] };

  it('finds agents by their exact names only', () => {
    const registry = createAgentRegistry([writer, researcher]);
    expect(registry.find('writer')).toBe(writer);
    for (const name of ['Writer', ' writer', 'writer ', '', 'toString', '__proto__']) {
      expect(registry.find(name), name).toBeUndefined();
    }
  });

  it('lists agents in the order of their definition', () => {
    expect(createAgentRegistry([writer, researcher]).list()).toEqual([writer, researcher]);
    expect(createAgentRegistry([]).list()).toEqual([]);
  });

  it('lets agents hand off to each other, also to one that is defined later', () => {
    expect(() => createAgentRegistry([writer, researcher])).not.toThrow();
  });

  it.each(['a', 'Research Agent', 'v1.2_beta-3', 'Übersetzer', '翻訳', '9', 'x'.repeat(64)])(
    'takes the name %s',
    (name) => {
      expect(createAgentRegistry([{ name }]).find(name)).toEqual({ name });
    },
  );

  it.each(['', ' a', '-a', '.a', '_a', 'a\n', 'a\tb', 'a/b', 'a"b', 'a:b', 'x'.repeat(65)])(
    'refuses the name %j',
    (name) => {
      expect(() => createAgentRegistry([{ name }])).toThrow(TypeError);
    },
  );

  it('refuses a name that is no text, as a program without types may give it', () => {
    for (const name of [undefined, null, 5, {}]) {
      const nameless = { name } as unknown as AgentDefinition;
      expect(() => createAgentRegistry([nameless])).toThrow(TypeError);
    }
  });

  it('takes no name that could break a line of a prompt', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', minLength: 1 }), (name) => {
        try {
          createAgentRegistry([{ name }]);
        } catch {
          return;
        }
        expect(name).toMatch(/^[\p{L}\p{N} ._-]+$/u);
      }),
      { numRuns: 500 },
    );
  });

  it('refuses two agents of one name', () => {
    const twice = [{ name: 'writer' }, { name: 'writer' }];
    expect(() => createAgentRegistry(twice)).toThrow('Two agents are named writer');
  });

  it('refuses a handoff to an unknown agent, and to the agent itself', () => {
    expect(() => createAgentRegistry([writer])).toThrow(
      'The agent writer hands off to researcher, which does not exist',
    );
    const alone = { name: 'alone', handoffs: ['alone'] };
    expect(() => createAgentRegistry([alone])).toThrow('The agent alone hands off to itself');
  });
});
