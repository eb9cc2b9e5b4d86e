/** `patch`: changes a text file of the workspace, or makes it; as a whole or not at all. */
import { isUtf8 } from 'node:buffer';
import { lstat } from 'node:fs/promises';
import { relative, sep } from 'node:path';
import type { Tool } from '@relay/core';
import { z } from 'zod';
import { defineTool } from '../define-tool.ts';
import { applyEdits, EditRefused } from './edits.ts';
import { locateIn, placeOf } from './resolved-paths.ts';
import { openPlace, PlaceRefused } from './place.ts';
import { lineEndingsOf } from './text-dress.ts';
import { applyDiff } from './unified-diff.ts';
import { writeWhole } from './write-file.ts';

const maxFileBytes = 10 * 1024 * 1024;
const maxText = 1_000_000;

const edit = z.strictObject({
  old: z.string().max(maxText).describe('The exact text to replace; empty to make a new file'),
  new: z.string().max(maxText).describe('The text to put in its place'),
  all: z.boolean().optional().describe('Replace every place, not only the one'),
});
const schema = z
  .strictObject({
    path: z.string().min(1).max(4_096).describe('The path of a file in the workspace'),
    edits: z.array(edit).min(1).max(100).optional().describe('Made one after the other'),
    diff: z.string().min(1).max(maxText).optional().describe('A unified diff of this one file'),
  })
  .refine(({ edits, diff }) => (edits === undefined) !== (diff === undefined), {
    message: 'Give either edits or a diff',
    path: ['edits'],
  });

export function createPatch({ root }: { readonly root: string }): Tool {
  // Calls of one turn run beside each other: of one file, one after the other.
  const turns = new Map<string, Promise<unknown>>();
  return defineTool({
    name: 'patch',
    description:
      'Changes a text file of the workspace by edits, each of which replaces a text that the file ' +
      'holds exactly once, or by a unified diff. Makes the file if it is not there. ' +
      'If anything does not fit, nothing is changed.',
    schema,
    kinds: { path: 'path' },
    sensitive: ['path'],
    inWorkspace: true,
    async locate(input) {
      const locating = await locateIn(root, { path: input.path });
      const place = locating.ok ? locating.resolvedPaths?.paths['path'] : undefined;
      const problem = place === undefined ? undefined : guarded(root, place);
      return problem === undefined ? locating : { ok: false, problem };
    },
    derivePermission: ({ path }) =>
      /^(?:[\w-][\w.-]*\/)*[\w-][\w.-]*$/.test(path)
        ? { tool: 'patch', params: { path } }
        : undefined,
    async execute(input, context) {
      const place = await placeOf(root, { name: 'path', path: input.path }, context);
      const problem = guarded(root, place);
      if (problem !== undefined) throw new PlaceRefused(problem);
      const before = turns.get(place) ?? Promise.resolve();
      const mine = before.then(() => change(place, input, context.signal));
      const settled = mine.catch(() => undefined);
      turns.set(place, settled);
      try {
        const { made, ...changes } = await mine;
        const count = `+${changes.added} −${changes.removed} lines`;
        return {
          context: `${made ? 'Made' : 'Changed'} ${input.path} (${count}).`,
          result: { path: input.path, created: made, ...changes },
        };
      } finally {
        if (turns.get(place) === settled) turns.delete(place);
      }
    },
  });
}

/**
 * What git is configured to run is written in these files. Whoever may patch files, and run `git log`,
 * may not therefore run anything.
 */
const gitsOwn = /(?:^|\/)\.git(?:\/|$)|^\.gitconfig$/i;

function guarded(root: string, place: string): string | undefined {
  if (place === root) return 'The workspace itself is a folder, not a file';
  const path = relative(root, place).replaceAll(sep, '/');
  return gitsOwn.test(path) ? `${path} is git's own: it says which programs git runs` : undefined;
}

type Input = z.output<typeof schema>;

async function change(place: string, { edits, diff, path }: Input, signal: AbortSignal) {
  signal.throwIfAborted();
  const found = await current(place, path);
  const dress = lineEndingsOf(found?.text, diff ?? '', edits ?? []);
  const plain = found === undefined ? undefined : dress.off(found.text);
  const after = dress.on(
    diff === undefined ? applyEdits(plain, edits ?? []) : applyDiff(plain, diff),
  );
  if (after === found?.text) throw new EditRefused('The file would stay as it is');
  if (Buffer.byteLength(after) > maxFileBytes) throw new EditRefused('The file would be too large');
  await writeWhole(place, {
    text: after,
    ...(found === undefined ? {} : { mode: found.mode }),
    async check() {
      signal.throwIfAborted();
      if ((await stampOf(place)) === found?.stamp) return;
      throw new EditRefused(`${path} was changed by somebody else meanwhile; read it again`);
    },
  });
  return { made: found === undefined, ...lineChanges(found?.text ?? '', after) };
}

async function current(place: string, path: string) {
  const stamp = await stampOf(place);
  if (stamp === undefined) return undefined;
  const file = await openPlace(place);
  try {
    const status = await file.stat();
    const { size, mode } = status;
    if (!status.isFile()) throw new PlaceRefused(`${path} is not a file`);
    if (size > maxFileBytes) throw new EditRefused(`${path} is too large to be changed`);
    const bytes = await file.readFile();
    if (!isUtf8(bytes) || bytes.includes(0)) throw new EditRefused(`${path} is not text`);
    return { text: bytes.toString('utf8'), mode, stamp };
  } finally {
    await file.close();
  }
}

/** What changes with the file; undefined if there is none. */
async function stampOf(place: string): Promise<string | undefined> {
  try {
    const { ino, size, mtimeNs } = await lstat(place, { bigint: true });
    return `${ino}:${size}:${mtimeNs}`;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** How many lines differ once the lines that both begin and end with are left out. */
function lineChanges(before: string, after: string): { added: number; removed: number } {
  const [old, now] = [before, after].map((text) =>
    text === '' ? [] : text.replace(/\n$/, '').split('\n'),
  ) as [string[], string[]];
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start += 1;
  let end = 0;
  const most = Math.min(old.length, now.length) - start;
  while (end < most && old[old.length - 1 - end] === now[now.length - 1 - end]) end += 1;
  return { added: now.length - start - end, removed: old.length - start - end };
}
