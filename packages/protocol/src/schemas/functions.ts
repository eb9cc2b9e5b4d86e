/** Function tools: the caller's own functions, which run where the caller is. */
import { z } from 'zod';

/** What a run knows of a function: enough to offer it to a model and to wait for its result. */
export const functionSchema = z.strictObject({
  name: z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/, 'Must be 1 to 64 letters, digits, "_" or "-"'),
  description: z.string().max(8192).optional(),
  inputSchema: z.record(z.string(), z.json()),
  /** How long a client may take for a result; left out, as long as the server says. */
  timeoutMs: z
    .int()
    .min(1)
    .max(24 * 60 * 60 * 1000)
    .optional(),
});
export type FunctionTool = z.infer<typeof functionSchema>;
