import { z } from 'zod';

/** What a provider attached to a part of its answer, by whose name it is handed back. */
const metadata = z.record(z.string(), z.record(z.string(), z.json()));

/**
 * What a provider wants to see again when it is asked the next time, besides the words: signatures
 * of its reasoning, ids of its items. Only the model that it came from can read it.
 *
 * The parts are those of one answer, in their order. Its text and its calls are elsewhere and are
 * not repeated here: a text says how long it was, a call which one of the calls it was.
 */
export const providerDataSchema = z.strictObject({
  provider: z.string().min(1).max(64),
  model: z.string().min(1).max(512),
  parts: z
    .array(
      z.discriminatedUnion('type', [
        z.strictObject({
          type: z.literal('reasoning'),
          text: z.string(),
          metadata: metadata.optional(),
        }),
        z.strictObject({
          type: z.literal('text'),
          chars: z.int().nonnegative(),
          metadata: metadata.optional(),
        }),
        z.strictObject({
          type: z.literal('call'),
          nth: z.int().nonnegative(),
          metadata: metadata.optional(),
        }),
      ]),
    )
    .max(4096),
});
export type ProviderData = z.infer<typeof providerDataSchema>;
