/** Where in an operator's file an error is: of the syntax, of an import, or thrown while the file was loaded. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

export interface LoadError {
  /** One line: `FILE:LINE:COLUMN: what is wrong`. */
  readonly message: string;
  /** The line of the file with a marker below it. */
  readonly excerpt: string | undefined;
}

interface Position {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

export function describeLoadError(path: string, error: unknown): LoadError {
  const [what = ''] = (error instanceof Error ? error.message : String(error)).split('\n');
  const position = error instanceof Error ? positionOf(path, error) : undefined;
  if (position === undefined) {
    return { message: `${path} could not be loaded: ${what}`, excerpt: undefined };
  }
  const { file, line, column } = position;
  const name = error instanceof Error && error.name !== 'Error' ? `${error.name}: ` : '';
  return {
    message: `${file}:${line}:${column}: ${name}${what}`,
    excerpt: excerptOf(position),
  };
}

function positionOf(path: string, error: Error): Position | undefined {
  const stack = error.stack ?? '';
  const missing = missingImport(error);
  if (missing !== undefined) return missing;
  const shown = shownPosition(stack) ?? framePosition(stack);
  if (shown !== undefined || !(error instanceof SyntaxError)) return shown;
  // V8 reports the position of a syntax error in JavaScript only to Node itself, which prints it.
  const check = spawnSync(process.execPath, ['--check', path], { encoding: 'utf8' });
  return shownPosition(check.stderr);
}

/** Node puts the line and a marker in front of the stack: `FILE:LINE`, source, `    ^^^`. */
function shownPosition(stack: string): Position | undefined {
  const [head = '', ...source] = stack.split('\n');
  const [, where, line] = /^(file:\/\/\S+|\/.+|[a-z]:\\.+):(\d+)$/i.exec(head) ?? [];
  const marker = source.slice(0, 4).find((each) => /^\s*\^+\s*$/.test(each));
  if (where === undefined || marker === undefined) return undefined;
  return { file: pathOf(where), line: Number(line), column: marker.indexOf('^') + 1 };
}

const relayFolder = fileURLToPath(new URL('../../..', import.meta.url));

/** The first frame in a file of the operator, not in a package that it uses or in Relay itself. */
function framePosition(stack: string): Position | undefined {
  for (const [, where = '', line, column] of stack.matchAll(/(file:\/\/\S+?):(\d+):(\d+)\)?$/gm)) {
    const file = pathOf(where);
    if (/[\\/]node_modules[\\/]/.test(file) || file.startsWith(relayFolder)) continue;
    return { file, line: Number(line), column: Number(column) };
  }
  return undefined;
}

/** `--watch` and the like add a query to the URL of a module. */
function pathOf(where: string): string {
  return where.startsWith('file:') ? fileURLToPath(where.replace(/[?#].*$/, '')) : where;
}

/** Node names the importing file, but not the line. */
function missingImport(error: Error): Position | undefined {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code !== 'ERR_MODULE_NOT_FOUND') return undefined;
  const [, missing = '', file] = /'([^']+)' imported from (.+)$/m.exec(message) ?? [];
  if (file === undefined) return undefined;
  for (const [index, text] of linesOf(file).entries()) {
    for (const found of text.matchAll(/(?<=['"])[^'"]+(?=['"])/g)) {
      const [specifier] = found;
      const isIt =
        specifier === missing ||
        specifier.startsWith(`${missing}/`) ||
        resolve(dirname(file), specifier) === missing;
      if (isIt) return { file, line: index + 1, column: found.index + 1 };
    }
  }
  return { file, line: 1, column: 1 };
}

function excerptOf({ file, line, column }: Position): string | undefined {
  const text = linesOf(file)[line - 1];
  if (text === undefined) return undefined;
  const number = `  ${line} | `;
  // Tabs stay tabs, so that the marker is below its character.
  const indent = text.slice(0, column - 1).replaceAll(/[^\t]/g, ' ');
  return `${number}${text}\n${' '.repeat(number.length)}${indent}^`;
}

function linesOf(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').split(/\r?\n/);
  } catch {
    return [];
  }
}
