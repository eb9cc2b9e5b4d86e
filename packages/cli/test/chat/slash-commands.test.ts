import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import type { RelayClient } from '@relay/sdk';
import { DurableChatClient } from '../../src/chat/durable-client.ts';
import { SlashCommands, type SlashCommandsOptions } from '../../src/chat/slash-commands.ts';

const cwd = mkdtempSync(join(tmpdir(), 'relay-completion-'));
afterAll(() => rmSync(cwd, { recursive: true, force: true }));

describe('the Tab key in a chat', () => {
  test('completes files and models, but none whose name acts on the terminal', async () => {
    for (const name of ['notes.md', 'notes\u001B[2J.md']) writeFileSync(join(cwd, name), '');
    const models = async () => ({ models: [{ id: 'gpt-5' }, { id: 'gpt\u001B]0;x\u0007' }] });
    const options = { cwd, client: { models }, durable: undefined };
    const commands = new SlashCommands(options as unknown as SlashCommandsOptions);
    await commands.load();
    expect(commands.complete('see @no')).toEqual([['notes.md'], 'no']);
    expect(commands.complete('/model g')).toEqual([['gpt-5'], 'g']);
    expect(commands.complete('/mo')).toEqual([['/model '], '/mo']);
  });
});

describe('/tools and /agent', () => {
  const agents = [
    { name: 'assistant', isDefault: true },
    { name: 'support', isDefault: false, tools: ['look_up'] },
  ];
  const client = {
    agents: { list: () => ({ page: async () => ({ items: agents, nextCursor: null }) }) },
    tools: async () => ({ tools: [{ name: 'look_up' }, { name: 'send_note' }] }),
  } as unknown as RelayClient;

  test('list the tools of the agent, and name the agent that was meant', async () => {
    const listed: { name: string }[][] = [];
    const print = { list: (items: { name: string }[]) => listed.push(items), paint: String };
    const durable = new DurableChatClient({
      client,
      model: undefined,
      agent: undefined,
      note() {},
    });
    const options = { cwd, client, durable, print, writeLine() {} };
    const commands = new SlashCommands(options as unknown as SlashCommandsOptions);
    await commands.run('/tools');
    await expect(commands.run('/agent suport')).rejects.toMatchObject({
      message: 'No agent has the name suport',
      hint: 'did you mean support? "relay agents" lists all',
    });
    await commands.run('/agent support');
    await commands.run('/tools');
    expect(listed.map((tools) => tools.map(({ name }) => name))).toEqual([
      ['look_up', 'send_note'],
      ['look_up'],
    ]);
  });
});
