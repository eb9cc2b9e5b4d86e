/** What is remembered beyond a conversation. */
import { z } from 'zod';

/** Any text, such as `user:42`. */
export const namespaceSchema = z.string().min(1).max(128);

export const defaultNamespace = 'default';

/** What a request says of memory: `true` means the namespace `default`. */
export const memoryUseSchema = z.union([
  z.literal(true),
  z.strictObject({ namespace: namespaceSchema }),
]);
export type MemoryUse = z.infer<typeof memoryUseSchema>;

export function namespaceOf(use: MemoryUse): string {
  return use === true ? defaultNamespace : use.namespace;
}

/** Who wrote it: a run as it ended, an agent by its tool, or a caller of the API. */
export const memorySources = ['run', 'tool', 'api'] as const;
export type MemorySource = (typeof memorySources)[number];

/** A memory is a note, not a document. */
export const maxMemoryChars = 8_000;
export const memoryTextSchema = z.string().min(1).max(maxMemoryChars);

/** What a search found it by. */
export const foundBy = ['words', 'meaning', 'both'] as const;
export type FoundBy = (typeof foundBy)[number];
