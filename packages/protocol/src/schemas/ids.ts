import { z } from 'zod';

/**
 * Every id that Relay makes is a UUIDv7: unique, and sorted by the time it was made. Callers may
 * bring ids of their own, so any variant of a UUID is taken.
 */
export const idSchema = z.guid();

/** A tool call keeps the provider's id, so its form is not ours to choose. */
export const toolCallIdSchema = z.string().min(1).max(256);
