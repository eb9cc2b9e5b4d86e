/** Memories outlive a conversation. */
import { z } from 'zod';

/** Any text, such as `user:42`. */
export const namespaceSchema = z.string().min(1).max(128);

export const defaultNamespace = 'default';

/** The memory of a run; `true` means the namespace `default`. */
export const memoryUseSchema = z.union([
  z.literal(true),
  z.strictObject({ namespace: namespaceSchema }),
]);
export type MemoryUse = z.infer<typeof memoryUseSchema>;

export function namespaceOf(use: MemoryUse): string {
  return use === true ? defaultNamespace : use.namespace;
}

/** What wrote a memory: a run when it ended, an agent's tool call, or an API request. */
export const memorySources = ['run', 'tool', 'api'] as const;
export type MemorySource = (typeof memorySources)[number];

export const maxMemoryChars = 8_000;
export const memoryTextSchema = z.string().min(1).max(maxMemoryChars);

/** How a search matched a memory. */
export const foundBy = ['words', 'meaning', 'both'] as const;
export type FoundBy = (typeof foundBy)[number];
