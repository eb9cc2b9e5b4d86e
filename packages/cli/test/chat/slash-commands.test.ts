import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
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
