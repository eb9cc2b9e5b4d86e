import { z } from 'zod';
import { toolCallIdSchema } from './ids.ts';

export const textPartSchema = z.strictObject({ type: z.literal('text'), text: z.string() });
export const imagePartSchema = z.strictObject({
  type: z.literal('image'),
  mediaType: z.string().min(1),
  data: z.string(),
});
export const contentPartSchema = z.discriminatedUnion('type', [textPartSchema, imagePartSchema]);
export type ContentPart = z.infer<typeof contentPartSchema>;

const contentSchema = z.union([z.string(), z.array(contentPartSchema)]);
export type MessageContent = z.infer<typeof contentSchema>;

export const messageToolCallSchema = z.strictObject({
  id: toolCallIdSchema,
  type: z.literal('function').default('function'),
  function: z.strictObject({ name: z.string().min(1), arguments: z.string() }),
});
export type MessageToolCall = z.infer<typeof messageToolCallSchema>;

/** One shape of message everywhere, the one that most clients already write. */
export const messageSchema = z.discriminatedUnion('role', [
  z.strictObject({ role: z.literal('system'), content: contentSchema }),
  z.strictObject({ role: z.literal('user'), content: contentSchema }),
  z.strictObject({
    role: z.literal('assistant'),
    content: contentSchema.nullable(),
    tool_calls: z.array(messageToolCallSchema).optional(),
  }),
  z.strictObject({
    role: z.literal('tool'),
    tool_call_id: toolCallIdSchema,
    content: contentSchema,
  }),
]);
export type Message = z.infer<typeof messageSchema>;

/** The text of a message, without its images. */
export function textOf(content: MessageContent | null): string {
  if (content === null) return '';
  if (typeof content === 'string') return content;
  return content.map((part) => (part.type === 'text' ? part.text : '')).join('');
}
