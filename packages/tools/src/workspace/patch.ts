/** `patch`: changes or creates a text file of the workspace, completely or not at all. */
import { isUtf8 } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { lstat, open, rename, rm } from 'node:fs/promises';
import { basename, dirname, relative, sep } from 'node:path';
import type { Tool, ToolContext } from '@relay/core';
import type { Preview } from '@relay/protocol';
import { z } from 'zod';
import { defineTool } from '../define-tool.ts';
import { applyDiff, applyEdits, type Edit, EditRefused } from './edits.ts';
import { patchGuard } from './guards.ts';
import {
  childPath,
  openFolder,
  openResolved,
  PathRefused,
  resolveAllowed,
  resolvePaths,
} from './paths.ts';
import { unifiedDiff } from './unified-diff.ts';

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants;
const maxFileBytes = 10 * 1024 * 1024;
const maxText = 1_000_000;

const edit = z.strictObject({
  old: z.string().max(maxText).describe('The exact text to replace; empty to create a file'),
  new: z.string().max(maxText).describe('The text to put in its place'),
  all: z.boolean().optional().describe('Replace every occurrence, not only one'),
});
const schema = z
  .strictObject({
    filePath: z.string().min(1).max(4_096).describe('The path of a file in the workspace'),
    edits: z.array(edit).min(1).max(100).optional().describe('Applied one after the other'),
    diff: z.string().min(1).max(maxText).optional().describe('A unified diff of this one file'),
  })
  .refine(({ edits, diff }) => (edits === undefined) !== (diff === undefined), {
    message: 'Give either edits or a diff',
    path: ['edits'],
  });

export function createPatch({ root }: { readonly root: string }): Tool {
  // Calls of one turn run concurrently; calls for the same file run one after the other.
  const queues = new Map<string, Promise<unknown>>();
  return defineTool({
    name: 'patch',
    description:
      'Changes a text file of the workspace by edits, each of which replaces a text that occurs ' +
      'exactly once in the file, or by a unified diff. Creates the file if it does not exist. ' +
      'If any part does not apply, nothing is changed.',
    schema,
    kinds: { filePath: 'path' },
    sensitive: ['filePath'],
    async resolvePaths({ filePath }) {
      const resolution = await resolvePaths(root, { filePath });
      const resolved = resolution.ok ? resolution.resolvedPaths?.paths['filePath'] : undefined;
      const guard = resolved === undefined ? undefined : await patchGuard(root, resolved);
      if (guard === undefined) return resolution;
      if (guard.kind === 'refused') return { ok: false, problem: guard.reason };
      return { ...resolution, needsApproval: guard.reason };
    },
    preview: (input, { filePath: target = '' }) => previewChange(root, target, input),
    derivePermission: ({ filePath }) =>
      /^(?:[\w-][\w.-]*\/)*[\w-][\w.-]*$/.test(filePath)
        ? { tool: 'patch', params: { filePath } }
        : undefined,
    async execute(input, context) {
      const { filePath } = input;
      const resolved = await resolveAllowed(root, 'filePath', filePath, context);
      const guard = await patchGuard(root, resolved);
      // The folder may have changed since the rule was applied.
      if (guard?.kind === 'refused' || (guard !== undefined && context.allowedBy === 'rule')) {
        throw new PathRefused(guard.reason);
      }
      const previous = queues.get(resolved) ?? Promise.resolve();
      const change = previous.then(() => changeFile(root, resolved, input, context));
      const settled = change.catch(() => undefined);
      queues.set(resolved, settled);
      try {
        const { created, added, removed } = await change;
        return {
          context: `${created ? 'Created' : 'Changed'} ${filePath} (+${added} −${removed} lines).`,
          result: { path: filePath, created, added, removed },
        };
      } finally {
        if (queues.get(resolved) === settled) queues.delete(resolved);
      }
    },
  });
}

type Input = z.output<typeof schema>;

/** The file as it is, and the text that it would have. */
async function planChange(target: string, { edits = [], diff, filePath }: Input) {
  const file = await readTarget(target, filePath);
  const endings = lineEndingsOf(file?.text, diff ?? '', edits);
  const before = file === undefined ? undefined : endings.strip(file.text);
  const after = endings.restore(
    diff === undefined ? applyEdits(before, edits) : applyDiff(before, diff),
  );
  if (after === file?.text) throw new EditRefused('The file would not change');
  if (Buffer.byteLength(after) > maxFileBytes) throw new EditRefused('The file would be too large');
  return { file, after };
}

async function previewChange(root: string, target: string, input: Input): Promise<Preview> {
  try {
    const { file, after } = await planChange(target, input);
    const { text: diff, digest } = diffOf(root, target, file?.text, after);
    return { diff, digest };
  } catch (error) {
    if (!(error instanceof EditRefused) && !(error instanceof PathRefused)) throw error;
    const diff = `This change does not apply to the file as it is now: ${error.message}`;
    return { diff, digest: 'does-not-apply' };
  }
}

/** Carriage returns that end all lines are part of neither version. */
function diffOf(root: string, target: string, before: string | undefined, after: string) {
  const path = relative(root, target).replaceAll(sep, '/');
  const hidesReturns =
    before !== undefined && endsAllLinesWithReturn(before) && endsAllLinesWithReturn(after);
  if (!hidesReturns) return unifiedDiff(path, before, after);
  return unifiedDiff(path, before.replaceAll('\r\n', '\n'), after.replaceAll('\r\n', '\n'));
}

async function changeFile(
  root: string,
  target: string,
  input: Input,
  { signal, previewDigest }: ToolContext,
) {
  signal.throwIfAborted();
  const { filePath } = input;
  const { file, after } = await planChange(target, input);
  if (
    previewDigest !== undefined &&
    previewDigest !== diffOf(root, target, file?.text, after).digest
  ) {
    throw new EditRefused(
      `${filePath} was changed after the approval was requested, so the call would do something else than was shown. Read the file, and call patch again`,
    );
  }
  await writeAtomically(target, after, file?.mode, async () => {
    signal.throwIfAborted();
    if ((await versionOf(target)) === file?.version) return;
    throw new EditRefused(`${filePath} was changed by another program meanwhile; read it again`);
  });
  return { created: file === undefined, ...lineChanges(file?.text ?? '', after) };
}

async function readTarget(target: string, path: string) {
  const version = await versionOf(target);
  if (version === undefined) return undefined;
  const file = await openResolved(target);
  try {
    const status = await file.stat();
    const { size, mode } = status;
    if (!status.isFile()) throw new PathRefused(`${path} is not a file`);
    if (size > maxFileBytes) throw new EditRefused(`${path} is too large to be changed`);
    const bytes = await file.readFile();
    if (!isUtf8(bytes) || bytes.includes(0)) throw new EditRefused(`${path} is not text`);
    return { text: bytes.toString('utf8'), mode, version };
  } finally {
    await file.close();
  }
}

/** Changes whenever the file does; undefined if there is no file. */
async function versionOf(target: string): Promise<string | undefined> {
  try {
    const { ino, size, mtimeNs } = await lstat(target, { bigint: true });
    return `${ino}:${size}:${mtimeNs}`;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * Writes a temporary file, calls `check`, and renames the file; both file and folder are synced. If
 * `check` throws, the target stays as it was.
 */
async function writeAtomically(
  target: string,
  text: string,
  mode: number | undefined,
  check: () => Promise<void>,
): Promise<void> {
  const folderPath = dirname(target);
  const folder = await openFolder(folderPath);
  const temporary = childPath(folder, folderPath, `.relay-${randomBytes(8).toString('hex')}.tmp`);
  try {
    await writeTemporary(temporary, text, mode);
    await check();
    await rename(temporary, childPath(folder, folderPath, basename(target)));
    await folder.sync();
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => undefined);
    throw error;
  } finally {
    await folder.close();
  }
}

async function writeTemporary(path: string, text: string, mode: number | undefined): Promise<void> {
  const file = await open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o666);
  try {
    await file.writeFile(text);
    if (mode !== undefined) await file.chmod(mode & 0o777);
    await file.sync();
  } finally {
    await file.close();
  }
}

const byteOrderMark = '\ufeff';

/**
 * `read` shows neither a byte order mark nor carriage returns. A change that has no carriage return
 * itself is therefore applied without them, and they are restored afterwards; a change that has one
 * is applied literally.
 */
function lineEndingsOf(before: string | undefined, diff: string, edits: readonly Edit[]) {
  const texts = [diff, ...edits.flatMap((each) => [each.old, each.new])];
  const isLiteral = texts.some((text) => text.includes('\r'));
  const hasMark = before?.startsWith(byteOrderMark) === true;
  const hasReturns = !isLiteral && before !== undefined && endsAllLinesWithReturn(before);
  return {
    strip(text: string): string {
      const unmarked = hasMark ? text.slice(byteOrderMark.length) : text;
      return hasReturns ? unmarked.replaceAll('\r\n', '\n') : unmarked;
    },
    restore(text: string): string {
      const ended = hasReturns ? text.replaceAll('\n', '\r\n') : text;
      return hasMark ? byteOrderMark + ended : ended;
    },
  };
}

/** Mixed line endings could not be restored. */
function endsAllLinesWithReturn(text: string): boolean {
  return text.includes('\r\n') && !/(?<!\r)\n/.test(text) && !/\r(?!\n)/.test(text);
}

/** The number of lines that differ between the common beginning and the common end. */
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
