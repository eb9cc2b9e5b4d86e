/** `read`: the lines of a text file, with their numbers, or the names in a folder. */
import { readdir } from 'node:fs/promises';
import type { Tool, ToolOutput } from '@relay/core';
import { z } from 'zod';
import { defineTool } from '../define-tool.ts';
import { locateIn, placeOf } from './resolved-paths.ts';
import { openPlace, PlaceRefused, within } from './place.ts';
import { type Lines, readLines } from './text-lines.ts';

const maxLines = 2_000;
const maxNames = 1_000;

const path = z
  .string()
  .min(1)
  .max(4_096)
  .describe('The path of a file or folder in the workspace, such as "src/main.ts" or "."');
const schema = z.strictObject({
  path,
  offset: z.int().min(1).optional().describe('The first line to read, counted from 1'),
  limit: z.int().min(1).max(maxLines).optional().describe('How many lines to read at most'),
});

export function createRead({ root }: { readonly root: string }): Tool {
  return defineTool({
    name: 'read',
    description:
      'Reads a text file of the workspace, each line with its number, or lists a folder. ' +
      `At most ${maxLines} lines at once; read on with offset.`,
    schema,
    kinds: { path: 'path' },
    sensitive: ['path'],
    inWorkspace: true,
    idempotent: true,
    locate: (input) => locateIn(root, { path: input.path }),
    derivePermission: ({ path: said }) => {
      const [, folder = '', name] = /^((?:[\w-][\w.-]*\/)*)([\w-][\w.-]*)$/.exec(said) ?? [];
      if (name === undefined) return undefined;
      return { tool: 'read', params: { path: folder === '' ? name : `${folder}*` } };
    },
    async execute({ path: said, offset = 1, limit = maxLines }, context) {
      const place = await placeOf(root, { name: 'path', path: said }, context);
      const handle = await openPlace(place).catch((error: unknown) => {
        throw explained(error, said);
      });
      try {
        const found = await handle.stat();
        if (found.isDirectory())
          return listing(said, await readdir(within(handle, place, '.'), { withFileTypes: true }));
        if (!found.isFile()) throw new PlaceRefused(`${said} is neither a file nor a folder`);
        const lines = await readLines(handle, { offset, limit, signal: context.signal });
        return lines === undefined ? binary(said, found.size) : text(said, { offset, lines });
      } finally {
        await handle.close();
      }
    },
  });
}

function explained(error: unknown, said: string): unknown {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT') return new Error(`There is no file ${said}`);
  if (code === 'EACCES') return new Error(`${said} may not be read`);
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

function text(path: string, { offset, lines }: { offset: number; lines: Lines }): ToolOutput {
  const { taken, more, cut } = lines;
  const numbered = taken.map((line, index) => `${String(offset + index).padStart(6)}\t${line}`);
  const next = offset + taken.length;
  const notes = [
    ...(taken.length === 0
      ? [offset === 1 ? '(an empty file)' : `(it has fewer than ${offset} lines)`]
      : []),
    ...(cut > 0 ? [`(${cut} long lines are cut)`] : []),
    ...(more ? [`(it goes on; read on with offset ${next})`] : []),
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
