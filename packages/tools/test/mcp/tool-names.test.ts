import { describe, expect, it } from 'vitest';
import { mapToolNames, mayOffer, qualifiedName, serverOf } from '../../src/mcp/tool-names.ts';

describe('the name of an MCP tool', () => {
  it.each([
    ['files', 'read', 'files_read'],
    ['my-files', 'read_it', 'my-files_read_it'],
    ['files', 'a.b/c d', 'files_a_b_c_d'],
    ['files', '', 'files_'],
  ])('of %s and %j is %s', (server, tool, name) => {
    expect(qualifiedName(server, tool)).toBe(name);
  });

  it('is shortened deterministically, and stays unique', () => {
    const [one, other] = ['a', 'b'].map((end) => qualifiedName('files', `${'x'.repeat(90)}${end}`));
    expect(one).toHaveLength(64);
    expect(one).toMatch(/^files_x+_[0-9a-f]{8}$/);
    expect(one).toBe(qualifiedName('files', `${'x'.repeat(90)}a`));
    expect(one).not.toBe(other);
  });

  it('identifies the server', () => {
    expect(serverOf('my-files_read_it')).toBe('my-files');
    expect(serverOf('_x')).toBeUndefined();
    expect(serverOf('calculator')).toBeUndefined();
  });

  it('is refused if several tools would have it, whatever their order', () => {
    const listed = ['a.b', 'c', 'a/b', 'c_'].map((name) => ({ name }));
    for (const all of [listed, listed.toReversed()]) {
      const { named, refused } = mapToolNames('s', all);
      expect(named.map(({ name }) => name).toSorted()).toEqual(['s_c', 's_c_']);
      expect(refused).toEqual(['s_a_b: 2 tools would have this name']);
    }
  });

  it('may belong to a configured server, according to its settings', () => {
    const servers = { files: { tools: ['read.it'] }, web: {} };
    expect(mayOffer(servers, 'files_read_it')).toBe(true);
    expect(mayOffer(servers, 'files_write')).toBe(false);
    expect(mayOffer(servers, 'web_anything')).toBe(true);
    expect(mayOffer(servers, 'other_read')).toBe(false);
    expect(mayOffer(servers, 'constructor_x')).toBe(false);
  });
});
