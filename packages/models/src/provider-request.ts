/** What requests to all providers have in common: options, attachments, tool names, output schemas. */
import type { Agent } from 'node:http';
import {
  type Attachment,
  type AttachmentPart,
  attachmentOf,
  type JsonSchema,
} from '@relay/protocol';
import type { Timeouts } from './http/exchange.ts';

export interface ProviderOptions {
  readonly apiKey: string;
  /** Up to and including the version, such as `https://api.openai.com/v1`. */
  readonly baseUrl?: string | undefined;
  /** The size of the context window, if it is known. */
  readonly contextTokens?: number | undefined;
  /** Default: a pool for all models of the process. */
  readonly agent?: Agent | undefined;
  readonly timeouts?: Partial<Timeouts> | undefined;
}

export function endpoint(baseUrl: string, path: string): URL {
  const url = new URL(baseUrl);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    throw new TypeError('The base URL of a provider must begin with https:// or http://');
  }
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/${path}`;
  return url;
}

export type AttachmentContent =
  /** A text file is sent as text, which every model can read. */
  | { readonly kind: 'text'; readonly text: string }
  | {
      readonly kind: 'file';
      readonly mediaType: string;
      readonly filename: string | undefined;
      readonly source: Attachment;
    };

const textual =
  /^(?:text\/.*|application\/(?:json|xml|yaml|x-yaml|toml|javascript|sql|x-sh|.*\+json|.*\+xml))$/i;
const mediaTypes = new Map([
  ['png', 'image/png'],
  ['jpg', 'image/jpeg'],
  ['jpeg', 'image/jpeg'],
  ['gif', 'image/gif'],
  ['webp', 'image/webp'],
  ['pdf', 'application/pdf'],
]);

export function attachmentContent(part: AttachmentPart): AttachmentContent {
  const source = attachmentOf(part);
  const filename = part.type === 'file' ? part.filename : undefined;
  if (source.kind === 'url') {
    const mediaType = source.mediaType ?? guessMediaType(source.url, part.type);
    return { kind: 'file', mediaType, filename, source };
  }
  if (part.type === 'file' && textual.test(source.mediaType)) {
    const text = Buffer.from(source.base64, 'base64').toString('utf8');
    const name = (filename ?? 'file').replaceAll(/["<>\r\n]/g, '_');
    return { kind: 'text', text: `<file name="${name}">\n${text}\n</file>` };
  }
  return { kind: 'file', mediaType: source.mediaType, filename, source };
}

/** What a model reads in place of an attachment that its API cannot carry. */
export function omittedAttachment(mediaType: string, filename: string | undefined): string {
  const name = filename === undefined ? '' : ` ${filename}`;
  return `[The attachment${name} (${mediaType}) was left out: the provider’s API does not accept it here]`;
}

function guessMediaType(url: string, type: 'image' | 'file'): string {
  const { pathname } = new URL(url);
  const extension = /\.([a-z0-9]+)$/i.exec(pathname)?.[1]?.toLowerCase() ?? '';
  return mediaTypes.get(extension) ?? (type === 'image' ? 'image/jpeg' : 'application/pdf');
}

const maxChars = 64;
/** Names that OpenAI, Anthropic and Google all accept. */
const accepted = /^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/;

/**
 * Maps names to names that providers accept, and back. Ours may be longer or contain other characters,
 * such as the tool names of an MCP server. Acceptable names stay the same.
 */
export class SafeNames {
  readonly #safe = new Map<string, string>();
  readonly #original = new Map<string, string>();

  /** Acceptable names are reserved first, so that no mapped name takes one of them. */
  constructor(names: readonly string[]) {
    for (const name of names) if (accepted.test(name)) this.#keep(name, name);
    for (const name of names) this.safe(name);
  }

  safe(name: string): string {
    const known = this.#safe.get(name);
    if (known !== undefined) return known;
    return this.#keep(name, this.#unique(accepted.test(name) ? name : sanitize(name)));
  }

  /** An unknown name, which a model may invent, stays the same. */
  original(safe: string): string {
    return this.#original.get(safe) ?? safe;
  }

  #keep(name: string, safe: string): string {
    this.#safe.set(name, safe);
    this.#original.set(safe, name);
    return safe;
  }

  #unique(wanted: string): string {
    let candidate = wanted;
    for (let n = 2; this.#original.has(candidate); n += 1) {
      const suffix = `_${n}`;
      candidate = `${wanted.slice(0, maxChars - suffix.length)}${suffix}`;
    }
    return candidate;
  }
}

function sanitize(name: string): string {
  const plain = name.replaceAll(/[^a-zA-Z0-9_-]/g, '_');
  return (/^[a-zA-Z_]/.test(plain) ? plain : `_${plain}`).slice(0, maxChars);
}

/** The JSON Schema keywords that strict modes of providers support. */
const strictKeywords = new Set([
  '$defs',
  '$ref',
  'additionalProperties',
  'anyOf',
  'const',
  'description',
  'enum',
  'items',
  'properties',
  'required',
  'title',
  'type',
]);

/**
 * Whether a provider can enforce the schema strictly: every object lists all its properties, requires
 * them all and allows no others. Other schemas are sent without strict mode, and Relay checks them.
 */
export function isStrictSchema(schema: JsonSchema): boolean {
  return schema['type'] === 'object' && isStrict(schema);
}

function isStrict(schema: unknown): boolean {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return false;
  const { type, properties, required, additionalProperties, items, anyOf, $defs } =
    schema as JsonSchema;
  if (!Object.keys(schema).every((word) => strictKeywords.has(word))) return false;
  if (type === 'object' || properties !== undefined) {
    const names = Object.keys(properties ?? {});
    const listed = Array.isArray(required) ? required : [];
    if (additionalProperties !== false || names.some((name) => !listed.includes(name)))
      return false;
  }
  return [
    ...Object.values(properties ?? {}),
    ...Object.values($defs ?? {}),
    ...(Array.isArray(anyOf) ? anyOf : []),
    ...(items === undefined ? [] : [items]),
  ].every(isStrict);
}
