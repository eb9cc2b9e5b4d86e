import { describe, expect, it } from 'vitest';
import type { Tool, ToolRegistry } from '../../src/index.ts';
import { agentTool, readArguments, withAbsolutePaths } from '../../src/sessions/agent-tools.ts';

const root = '/srv/work';
const place = { folder: 'shop', root };

describe('the paths of an agent’s call', () => {
  it.each([
    ['src/a.ts', 'shop/src/a.ts'],
    ['./src//a.ts', 'shop/src/a.ts'],
    ['../other/a.ts', 'other/a.ts'],
    ['../../etc/passwd', '/srv/etc/passwd'],
    ['/srv/work/shop/a.ts', 'shop/a.ts'],
    ['/srv/workshop/a.ts', '/srv/workshop/a.ts'],
    ['.', 'shop'],
    ['..', '.'],
  ])('%s is %s of the workspace', (filePath, expected) => {
    const read = readArguments('patch', { filePath, diff: filePath }, place);
    expect(read).toEqual({ input: { filePath: expected, diff: filePath }, isConcrete: true });
    const again = withAbsolutePaths('patch', { filePath: expected }, root);
    expect(readArguments('patch', again, place).input).toEqual({ filePath: expected });
  });

  it.each([['src/link/../a.ts'], ['/srv/work/shop/../a.ts'], ['../a/..']])(
    'are left as they are where links decide where they lead: %s',
    (filePath) => {
      const read = readArguments('read', { filePath }, place);
      expect(read).toEqual({ input: { filePath }, isConcrete: false });
    },
  );

  it('are left as they are without a workspace, and for tools that only the agent knows', () => {
    const input = { filePath: 'a.ts' };
    const nowhere = { folder: null, root: undefined };
    expect(readArguments('read', input, nowhere)).toEqual({ input, isConcrete: true });
    expect(readArguments('coder.Read', input, place)).toEqual({ input, isConcrete: true });
    expect(readArguments('toString', input, place)).toEqual({ input, isConcrete: true });
  });
});

it.each([
  ['bash', { command: ['ls'] }],
  ['bash', {}],
  ['patch', { filePath: null }],
  ['fetch', {}],
  ['coder.Deploy', 'x'],
  ['coder.Deploy', [1]],
])('nothing concrete is known of %s %j', (tool, input) => {
  expect(readArguments(tool, input, place)).toEqual({ input, isConcrete: false });
});

it('commands run in the folder of the session, and are judged there', async () => {
  const asked: unknown[] = [];
  const bash = {
    name: 'bash',
    kinds: { command: 'command', cwd: 'path' },
    resolvePaths: async (input: unknown) => {
      asked.push(input);
      return { ok: true } as const;
    },
  } as unknown as Tool;
  const tools: ToolRegistry = {
    find: (name) => (name === 'bash' ? bash : undefined),
    list: () => [bash],
  };
  const tool = agentTool(tools, 'bash', 'shop');
  await tool?.resolvePaths?.({ command: 'ls' });
  await tool?.resolvePaths?.({ command: 'ls', cwd: 'other' });
  expect(await tool?.resolvePaths?.({})).toEqual({ ok: true });
  expect(asked).toEqual([
    { command: 'ls', cwd: 'shop' },
    { command: 'ls', cwd: 'other' },
  ]);
  expect(agentTool(tools, 'fetch')).toEqual({ kinds: { url: 'url' }, sensitive: ['url'] });
  expect(agentTool(tools, 'coder.Deploy')).toBeUndefined();
});
