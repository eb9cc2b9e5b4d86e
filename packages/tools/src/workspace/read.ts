/** `read`: the lines of a text file, with their numbers, or the names in a folder. */
import { type FileHandle, readdir } from 'node:fs/promises';
import type { Tool, ToolOutput } from '@relay/core';
import { z } from 'zod';
import { defineTool } from '../define-tool.ts';
import { childPath, openResolved, PathRefused, resolveAllowed, resolvePaths } from './paths.ts';

const maxLines = 2_000;
const maxNames = 1_000;
const maxLineChars = 2_000;
const maxChars = 200_000;
const chunkBytes = 64 * 1024;

const schema = z.strictObject({
  filePath: z
    .string()
    .min(1)
    .max(4_096)
    .describe('The path of a file or folder in the workspace, such as "src/main.ts" or "."'),
  offset: z.int().min(1).optional().describe('The first line to read, counted from 1'),
  limit: z.int().min(1).max(maxLines).optional().describe('The maximum number of lines to read'),
});

export function createRead({ root }: { readonly root: string }): Tool {
  return defineTool({
    name: 'read',
    description:
      'Reads a text file of the workspace, each line with its number, or lists a folder. ' +
      `At most ${maxLines} lines at once; continue with offset.`,
    schema,
    kinds: { filePath: 'path' },
    sensitive: ['filePath'],
    idempotent: true,
    resolvePaths: ({ filePath }) => resolvePaths(root, { filePath }),
    derivePermission: ({ filePath }) => {
      const [, folder = '', name] = /^((?:[\w-][\w.-]*\/)*)([\w-][\w.-]*)$/.exec(filePath) ?? [];
      if (name === undefined) return undefined;
      return { tool: 'read', params: { filePath: folder === '' ? name : `${folder}*` } };
    },
    async execute({ filePath, offset = 1, limit = maxLines }, context) {
      const resolved = await resolveAllowed(root, 'filePath', filePath, context);
      const handle = await openResolved(resolved).catch((error: unknown) => {
        throw explained(error, filePath);
      });
      try {
        const found = await handle.stat();
        if (found.isDirectory()) {
          const folder = childPath(handle, resolved, '.');
          return listing(filePath, await readdir(folder, { withFileTypes: true }));
        }
        if (!found.isFile()) throw new PathRefused(`${filePath} is neither a file nor a folder`);
        const lines = await readLines(handle, { offset, limit }, context.signal);
        return lines === undefined ? binary(filePath, found.size) : text(filePath, offset, lines);
      } finally {
        await handle.close();
      }
    },
  });
}

function explained(error: unknown, path: string): unknown {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT') return new Error(`There is no file ${path}`);
  if (code === 'EACCES') return new Error(`Permission denied: ${path}`);
  return error;
}

interface Entry {
  readonly name: string;
  isDirectory(): boolean;
  isSymbolicLink(): boolean;
}

function listing(path: string, entries: readonly Entry[]): ToolOutput {
  const names = entries
    .map((entry) => entry.name + (entry.isDirectory() ? '/' : entry.isSymbolicLink() ? '@' : ''))
    .toSorted();
  const shown = names.slice(0, maxNames);
  const rest = names.length - shown.length;
  const more = rest === 0 ? [] : [`(and ${rest} more)`];
  return {
    context: names.length === 0 ? '(an empty folder)' : [...shown, ...more].join('\n'),
    result: { path, kind: 'folder', entries: shown, ...(rest === 0 ? {} : { notShown: rest }) },
  };
}

function binary(path: string, size: number): ToolOutput {
  return {
    context: `${path} is not text: ${size} bytes, which are not shown.`,
    result: { path, kind: 'binary', size },
  };
}

function text(path: string, offset: number, { taken, more, cut }: Lines): ToolOutput {
  const numbered = taken.map((line, index) => `${String(offset + index).padStart(6)}\t${line}`);
  const next = offset + taken.length;
  const notes = [
    ...(taken.length === 0
      ? [offset === 1 ? '(an empty file)' : `(the file has fewer than ${offset} lines)`]
      : []),
    ...(cut > 0 ? [`(${cut} long lines are cut)`] : []),
    ...(more ? [`(more lines follow; continue with offset ${next})`] : []),
  ];
  return {
    context: [...numbered, ...notes].join('\n'),
    result: {
      path,
      kind: 'text',
      text: taken.join('\n'),
      firstLine: offset,
      lines: taken.length,
      more,
      ...(cut > 0 ? { cutLines: cut } : {}),
    },
  };
}

interface LineRange {
  readonly offset: number;
  readonly limit: number;
}

interface Lines {
  readonly taken: readonly string[];
  /** More lines follow. */
  readonly more: boolean;
  /** How many lines were too long to be shown in full. */
  readonly cut: number;
}

/**
 * Reads some lines without holding the rest of the file in memory. Undefined if the part that was
 * read is not text: it has a NUL, or bytes that are not UTF-8.
 */
async function readLines(
  file: FileHandle,
  range: LineRange,
  signal: AbortSignal,
): Promise<Lines | undefined> {
  const collector = new LineCollector(range);
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const buffer = Buffer.alloc(chunkBytes);
  try {
    for (let position = 0; !collector.isFull;) {
      signal.throwIfAborted();
      const { bytesRead } = await file.read(buffer, 0, chunkBytes, position);
      const chunk = buffer.subarray(0, bytesRead);
      if (chunk.includes(0)) return undefined;
      collector.add(decoder.decode(chunk, { stream: bytesRead > 0 }));
      if (bytesRead === 0) break;
      position += bytesRead;
    }
  } catch (error) {
    if ((error as { code?: string }).code === 'ERR_ENCODING_INVALID_ENCODED_DATA') return undefined;
    throw error;
  }
  return collector.lines();
}

class LineCollector {
  readonly #range: LineRange;
  readonly #taken: string[] = [];
  #number = 1;
  #line = '';
  #cut = 0;
  #chars = 0;
  #more = false;

  constructor(range: LineRange) {
    this.#range = range;
  }

  get isFull(): boolean {
    return this.#more;
  }

  add(text: string): void {
    const parts = text.split('\n');
    for (const [index, part] of parts.entries()) {
      // One character more than is shown marks the line as cut.
      if (this.#line.length <= maxLineChars) this.#line += part.slice(0, maxLineChars + 1);
      if (index < parts.length - 1) this.#endLine();
      if (this.#more) return;
    }
  }

  lines(): Lines {
    if (!this.#more && this.#line !== '') this.#endLine();
    return { taken: this.#taken, more: this.#more, cut: this.#cut };
  }

  #endLine(): void {
    const { offset, limit } = this.#range;
    const line = this.#line.replace(/\r$/, '');
    this.#line = '';
    this.#number += 1;
    if (this.#number <= offset) return;
    if (this.#taken.length >= limit || this.#chars > maxChars) {
      this.#more = true;
      return;
    }
    const isLong = line.length > maxLineChars;
    if (isLong) this.#cut += 1;
    const shown = isLong ? `${line.slice(0, maxLineChars)} … (cut)` : line;
    this.#chars += shown.length + 1;
    this.#taken.push(shown);
  }
}
