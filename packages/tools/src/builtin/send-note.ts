/**
 * A harmless tool to try approvals with: it appends a line to `notes.log` in the data folder. The line
 * is synced to disk before the call returns.
 */
import { type FileHandle, mkdir, open } from 'node:fs/promises';
import { join } from 'node:path';
import type { Tool } from '@relay/core';
import { z } from 'zod';
import { defineTool } from '../define-tool.ts';

const schema = z.strictObject({
  to: z.string().min(1).max(200).describe('Who the note is for, such as "operator"'),
  text: z.string().min(1).max(10_000),
});

export function createSendNote({ dataDir }: { readonly dataDir: string }): Tool {
  // One at a time, so that a partial line can be truncated.
  let last: Promise<void> = Promise.resolve();
  return defineTool({
    name: 'send_note',
    description: 'Leaves a note for a person.',
    schema,
    async execute({ to, text }, { signal, runId, toolCallId }) {
      const note = { at: new Date().toISOString(), to, text, runId, toolCallId };
      const written = last.then(async () => {
        signal.throwIfAborted();
        await appendLine(dataDir, JSON.stringify(note));
      });
      last = written.catch(() => undefined);
      await written;
      return { context: `The note to ${to} was sent.`, result: { sent: true } };
    },
  });
}

async function appendLine(dataDir: string, line: string): Promise<void> {
  await mkdir(dataDir, { recursive: true });
  const file = await open(join(dataDir, 'notes.log'), 'a+', 0o600);
  try {
    const { size } = await file.stat();
    const lead = (await endsInLine(file, size)) ? '' : '\n';
    try {
      await file.appendFile(`${lead}${line}\n`);
      await file.sync();
    } catch (error) {
      await file.truncate(size).catch(() => undefined);
      throw error;
    }
    if (size === 0) await syncFolder(dataDir);
  } finally {
    await file.close();
  }
}

/** A crash may have left a partial line, which must not be joined with the next. */
async function endsInLine(file: FileHandle, size: number): Promise<boolean> {
  if (size === 0) return true;
  const { buffer } = await file.read(Buffer.alloc(1), 0, 1, size - 1);
  return buffer[0] === 0x0a;
}

/** A new file is durable only after its folder is synced. */
async function syncFolder(dataDir: string): Promise<void> {
  const folder = await open(dataDir, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
