/**
 * `@file` in a message attaches the file. A word that names no file stays text, such as `@ada` or
 * `@types/node`; one that can only be a file, such as `@./notes` or `@main.ts`, must exist.
 */
import { readFileSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { extname, resolve } from 'node:path';
import { usageError } from '../errors.ts';
import type { MessageContent } from './client.ts';

export interface AttachmentOptions {
  readonly cwd: string;
  /** Pasted text attaches nothing: others may have written it. */
  readonly pasted?: readonly string[];
}

export interface AttachedMessage {
  readonly content: MessageContent;
  readonly files: readonly { readonly path: string; readonly bytes: number }[];
}

type Part = Exclude<MessageContent, string>[number];

const maxTextBytes = 256 * 1024;
/** In base64 it still fits the body of a request. */
const maxMediaBytes = 5 * 1024 * 1024;

const mediaTypes: Readonly<Record<string, string>> = {
  '.png': 'image/png',
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg',
  '.gif': 'image/gif',
  '.webp': 'image/webp',
  '.pdf': 'application/pdf',
};

/** Not within a word: an e-mail address is no file. */
const reference = /(?<=^|\s)@(?:"([^"\n]+)"|(\S+))/g;

export function withAttachments(text: string, options: AttachmentOptions): AttachedMessage {
  const { pasted = [] } = options;
  const paths = [...text.matchAll(reference)]
    .filter(([word]) => !pasted.some((each) => isPastedIn(each, word)))
    .flatMap(([, quoted, word = '']) => pathOf(quoted, word, options.cwd) ?? []);
  const files = [...new Set(paths)].map((path) => attach(path, resolvePath(path, options.cwd)));
  // A backslash before the @ keeps the word as text.
  const message = text.replaceAll(/(?<=^|\s)\\@/g, '@');
  if (files.length === 0) return { content: message, files: [] };
  return {
    content: [{ type: 'text', text: message }, ...files.map(({ part }) => part)],
    files: files.map(({ path, bytes }) => ({ path, bytes })),
  };
}

/** A shell removes the quotes of `"@my notes.txt"`. */
export function quotedReference(word: string, cwd: string): string {
  const path = word.slice(1);
  const isFileWithSpaces =
    word.startsWith('@') && /^[^"]*\s[^"]*$/.test(path) && isFile(resolvePath(path, cwd));
  return isFileWithSpaces ? `@"${path}"` : word;
}

/** Also if it was typed on or cut after it was pasted. */
function isPastedIn(pasted: string, word: string): boolean {
  if (pasted.includes(word)) return true;
  return [...pasted.matchAll(/@\S+|@$/g)].some(([begun]) => word.startsWith(begun));
}

/** The path that a reference names; undefined if it is text. */
function pathOf(quoted: string | undefined, word: string, cwd: string): string | undefined {
  // "See @main.ts, please": the comma is not part of the name.
  const trimmed = word.replace(/[.,;:!?)\]}'"]+$/, '');
  const candidates = quoted === undefined ? [word, trimmed] : [quoted];
  const found = candidates.find((path) => path !== '' && isFile(resolvePath(path, cwd)));
  if (found !== undefined) return found;
  const missing = quoted ?? trimmed;
  if (quoted === undefined && !/^(\.{0,2}|~)\/|\.[a-z]\w{0,7}$/i.test(missing)) return undefined;
  const hint = 'for a word that is not a file, write \\@';
  const isFolder = statSync(resolvePath(missing, cwd), { throwIfNoEntry: false })?.isDirectory();
  if (isFolder === true)
    throw usageError(`${missing} is a folder; only files can be attached`, hint);
  throw usageError(`No such file: ${missing}`, hint);
}

function resolvePath(path: string, cwd: string): string {
  return resolve(cwd, path.replace(/^~(?=\/)/, homedir()));
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}

function attach(path: string, absolute: string): { path: string; bytes: number; part: Part } {
  const { size: bytes } = statSync(absolute);
  const mediaType = mediaTypes[extname(path).toLowerCase()];
  const limit = mediaType === undefined ? maxTextBytes : maxMediaBytes;
  if (bytes > limit) {
    const kind = mediaType === undefined ? 'a text' : 'an image or a PDF';
    throw usageError(
      `${path} has ${sizeText(bytes)}; ${kind} can have at most ${sizeText(limit)}`,
      'attach a part of it',
    );
  }
  let data: Buffer;
  try {
    data = readFileSync(absolute);
  } catch (error) {
    throw usageError(`${path} cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
  if (mediaType === undefined) return { path, bytes, part: textPart(path, data) };
  const source = { mediaType, data: data.toString('base64') };
  if (mediaType.startsWith('image/')) return { path, bytes, part: { type: 'image', ...source } };
  return { path, bytes, part: { type: 'file', filename: path.slice(-256), ...source } };
}

function textPart(path: string, data: Buffer): Part {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(data);
  } catch {
    text = '\0';
  }
  if (text.includes('\0')) {
    throw usageError(`${path} is not a text, an image or a PDF, and cannot be attached`);
  }
  const end = text.endsWith('\n') ? '' : '\n';
  // Some views and models join the parts of a message.
  return { type: 'text', text: `\n\n<file path=${JSON.stringify(path)}>\n${text}${end}</file>` };
}

export function sizeText(bytes: number): string {
  if (bytes < 1_024) return `${bytes} bytes`;
  const kilobytes = bytes / 1_024;
  if (kilobytes < 1_024) return `${Math.round(kilobytes)} KB`;
  return `${Number((kilobytes / 1_024).toFixed(1))} MB`;
}
