import { createRecordingTool } from '@relay/core/testing';
import { describe, expect, it } from 'vitest';
import { createToolRegistry } from '../src/registry.ts';

const tool = (name: string) => createRecordingTool({ name });

describe('the tool registry', () => {
  it('finds a tool by its exact name', () => {
    const look = tool('look');
    const registry = createToolRegistry([look, tool('pay')]);
    expect(registry.find('look')).toBe(look);
    for (const name of ['Look', 'look ', '', 'constructor', '__proto__', 'hasOwnProperty']) {
      expect(registry.find(name)).toBeUndefined();
    }
  });

  it('lists its tools in their order', () => {
    expect(
      createToolRegistry([tool('b'), tool('a')])
        .list()
        .map(({ name }) => name),
    ).toEqual(['b', 'a']);
    expect(createToolRegistry([]).list()).toEqual([]);
  });

  it('refuses two tools with one name', () => {
    expect(() => createToolRegistry([tool('a'), tool('b'), tool('a')])).toThrow(
      'Two tools are named a',
    );
  });

  it.each(['constructor', '__proto__', 'toString', 'hasOwnProperty', 'valueOf'])(
    'refuses a tool named %s, which every object has',
    (name) => {
      expect(() => createToolRegistry([tool(name)])).toThrow(`The tool name ${name} is reserved`);
    },
  );

  it('refuses the name of the handoff tool', () => {
    expect(() => createToolRegistry([tool('handoff')])).toThrow(
      'The tool name handoff is reserved',
    );
  });

  it.each(['', 'a b', 'x'.repeat(65)])('refuses a tool named %j', (name) => {
    expect(() => createToolRegistry([tool(name)])).toThrow(TypeError);
  });
});
