import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makeFolder, type TestFolder } from '../support/folder.ts';
import { CommandOutput } from '../../src/workspace/command-output.ts';

let folder: TestFolder;
beforeEach(() => {
  folder = makeFolder();
});
afterEach(() => folder.remove());

const limits = { shownChars: 10, keptBytes: 100 };

describe('command output', () => {
  it('is shown as it is while it is short, and no file is made', async () => {
    const path = join(folder.root, 'run/call.stdout');
    const output = new CommandOutput(path, limits);
    await output.add(Buffer.from('x'.repeat(20)));
    expect(await output.end()).toEqual({ text: 'x'.repeat(20), bytes: 20, omitted: 0 });
    expect(existsSync(path)).toBe(false);
  });

  it('is cut in the middle when it is long, and kept whole in a private file', async () => {
    const path = join(folder.root, 'run/call.stdout');
    const output = new CommandOutput(path, limits);
    for (const chunk of ['0123456789', 'abcdefghij', 'ABCDEFGHIJ'])
      await output.add(Buffer.from(chunk));
    const captured = await output.end();
    expect(captured.text).toBe('0123456789\n… 10 characters are not shown …\nABCDEFGHIJ');
    expect(captured).toMatchObject({ bytes: 30, omitted: 10, file: path });
    expect(readFileSync(path, 'utf8')).toBe('0123456789abcdefghijABCDEFGHIJ');
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  it('is complete, however it is split into chunks', async () => {
    let files = 0;
    const piece = fc.string({ unit: 'grapheme', maxLength: 15 });
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 8 }), fc.nat(7), async (pieces, size) => {
        const path = join(folder.root, `out-${(files += 1)}`);
        const output = new CommandOutput(path, { ...limits, keptBytes: 10_000 });
        const bytes = Buffer.from(pieces.join(''));
        for (let at = 0; at < bytes.length; at += size + 1) {
          await output.add(Buffer.from(bytes.subarray(at, at + size + 1)));
        }
        const captured = await output.end();
        const all =
          captured.file === undefined ? Buffer.from(captured.text) : readFileSync(captured.file);
        expect(all.equals(bytes)).toBe(true);
        expect(captured.bytes).toBe(bytes.length);
      }),
      { numRuns: 100 },
    );
  });

  it('reports when it exceeds the limit', async () => {
    const output = new CommandOutput(join(folder.root, 'x'), limits);
    await output.add(Buffer.alloc(100, 'x'));
    expect(output.isTooMuch).toBe(false);
    await output.add(Buffer.from('x'));
    expect(output.isTooMuch).toBe(true);
    await output.end();
  });
});
