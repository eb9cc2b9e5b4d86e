/** Images and files of a message, as far as all providers are alike. */
import {
  type Attachment,
  type AttachmentPart,
  attachmentOf,
  type JsonSchema,
} from '@relay/protocol';

export type Given =
  /** A file that is nothing but text is told as text: every model can read that. */
  | { readonly kind: 'text'; readonly text: string }
  | {
      readonly kind: 'file';
      readonly mediaType: string;
      readonly filename: string | undefined;
      readonly source: Attachment;
    };

const textual =
  /^(?:text\/.*|application\/(?:json|xml|yaml|x-yaml|toml|javascript|sql|x-sh|.*\+json|.*\+xml))$/i;
const endings = new Map([
  ['png', 'image/png'],
  ['jpg', 'image/jpeg'],
  ['jpeg', 'image/jpeg'],
  ['gif', 'image/gif'],
  ['webp', 'image/webp'],
  ['pdf', 'application/pdf'],
]);

export function givenBy(part: AttachmentPart): Given {
  const source = attachmentOf(part);
  const filename = part.type === 'file' ? part.filename : undefined;
  if (source.kind === 'url') {
    const mediaType = source.mediaType ?? guessed(source.url, part.type);
    return { kind: 'file', mediaType, filename, source };
  }
  if (part.type === 'file' && textual.test(source.mediaType)) {
    const text = Buffer.from(source.base64, 'base64').toString('utf8');
    return { kind: 'text', text: `<file name="${quoted(filename ?? 'file')}">\n${text}\n</file>` };
  }
  return { kind: 'file', mediaType: source.mediaType, filename, source };
}

/** Some providers want to know what they will find at a URL. */
function guessed(url: string, type: 'image' | 'file'): string {
  const { pathname } = new URL(url);
  const ending = /\.([a-z0-9]+)$/i.exec(pathname)?.[1]?.toLowerCase() ?? '';
  return endings.get(ending) ?? (type === 'image' ? 'image/jpeg' : 'application/pdf');
}

function quoted(name: string): string {
  return name.replaceAll(/["<>\r\n]/g, '_');
}

/**
 * Names that providers accept, and the way back. Ours may be longer or hold other characters, such as
 * those that a server of tools has chosen; what fits stays as it is.
 */
const maxChars = 64;
/** What OpenAI, Anthropic and Google agree on. */
const accepted = /^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/;

export class SafeNames {
  readonly #safe = new Map<string, string>();
  readonly #original = new Map<string, string>();

  /** Those that are known from the beginning come first, so that none of theirs is taken away. */
  constructor(names: readonly string[]) {
    for (const name of names) if (accepted.test(name)) this.#keep(name, name);
    for (const name of names) this.safe(name);
  }

  safe(name: string): string {
    const known = this.#safe.get(name);
    if (known !== undefined) return known;
    return this.#keep(name, accepted.test(name) ? this.#free(name) : this.#free(fitted(name)));
  }

  /** What a provider calls by a name that it was never told stays what it is. */
  original(safe: string): string {
    return this.#original.get(safe) ?? safe;
  }

  #keep(name: string, safe: string): string {
    this.#safe.set(name, safe);
    this.#original.set(safe, name);
    return safe;
  }

  #free(wanted: string): string {
    let candidate = wanted;
    for (let n = 2; this.#original.has(candidate); n += 1) {
      const end = `_${n}`;
      candidate = `${wanted.slice(0, maxChars - end.length)}${end}`;
    }
    return candidate;
  }
}

function fitted(name: string): string {
  const plain = name.replaceAll(/[^a-zA-Z0-9_-]/g, '_');
  return (/^[a-zA-Z_]/.test(plain) ? plain : `_${plain}`).slice(0, maxChars);
}

/** What providers that promise to keep to a schema can promise it for. */
const words = new Set([
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
 * Whether a provider may be asked to keep to it to the letter: every object lists all its properties,
 * all are required, and there are no others. A schema beyond that is only told, and checked by us.
 */
export function isStrictSchema(schema: JsonSchema): boolean {
  return schema['type'] === 'object' && isStrict(schema);
}

function isStrict(schema: unknown): boolean {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return false;
  const { type, properties, required, additionalProperties, items, anyOf, $defs } =
    schema as JsonSchema;
  if (!Object.keys(schema).every((word) => words.has(word))) return false;
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
