import { z } from 'zod';
import { idSchema, toolCallIdSchema } from './values.ts';

/** What a provider attached to a part of its answer, keyed by the provider’s name. */
const metadata = z.record(z.string(), z.record(z.string(), z.json()));

/**
 * Data that a provider expects back with the next request, such as reasoning signatures and item ids.
 * Only the model that produced it can read it.
 *
 * The parts are those of one answer, in order. Text and calls are stored elsewhere and not repeated: a
 * text part has its length (`chars`), a call part its index among the calls (`nth`).
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

/** The size limit of a request body. */
const maxAttachmentChars = 10 * 1024 * 1024;
const maxParts = 256;

const base64Form = /^[A-Za-z0-9+/]+={0,2}$/;
const mediaTypeForm = /^[a-z0-9][a-z0-9!#$&^_.+-]*\/[a-z0-9][a-z0-9!#$&^_.+-]*$/i;
/** The prefix only; `base64Form` checks the data. */
const dataUrlForm = /^data:([^;,]+);base64,/i;

const httpsForm = /^https:\/\/[^\s/?#@\\]+(?:[/?#]\S*)?$/i;

const mediaTypeSchema = z
  .string()
  .max(128)
  .regex(mediaTypeForm, 'Must be a media type, such as image/png');
// A string that is too long is not matched: the regular expression could exhaust the stack.
const base64Schema = z
  .string()
  .max(maxAttachmentChars, { abort: true })
  .regex(base64Form, 'Must be base64');
const urlSchema = z.string().max(maxAttachmentChars).refine(isAttachmentUrl, {
  message: 'Must be an https URL or a base64 data URL',
});

export const textPartSchema = z.strictObject({ type: z.literal('text'), text: z.string() });

/** Either `data` in base64 with its `mediaType`, or a `url`. */
export const imagePartSchema = z
  .strictObject({
    type: z.literal('image'),
    mediaType: mediaTypeSchema.optional(),
    data: base64Schema.optional(),
    url: urlSchema.optional(),
  })
  .superRefine(checkSource);

export const filePartSchema = z
  .strictObject({
    type: z.literal('file'),
    mediaType: mediaTypeSchema.optional(),
    data: base64Schema.optional(),
    url: urlSchema.optional(),
    filename: z.string().min(1).max(256).optional(),
  })
  .superRefine(checkSource);

export const contentPartSchema = z.discriminatedUnion('type', [
  textPartSchema,
  imagePartSchema,
  filePartSchema,
]);
export type ContentPart = z.infer<typeof contentPartSchema>;

export const attachmentPartSchema = z.discriminatedUnion('type', [imagePartSchema, filePartSchema]);
export type AttachmentPart = z.infer<typeof attachmentPartSchema>;

export const contentPartsSchema = z.array(contentPartSchema).max(maxParts);
export const contentSchema = z.union([z.string(), contentPartsSchema]);
export type MessageContent = z.infer<typeof contentSchema>;

export const messageToolCallSchema = z.strictObject({
  id: toolCallIdSchema,
  type: z.literal('function').default('function'),
  function: z.strictObject({ name: z.string().min(1), arguments: z.string() }),
});
export type MessageToolCall = z.infer<typeof messageToolCallSchema>;

/** The Chat Completions message format, used on every surface. */
export const messageSchema = z.discriminatedUnion('role', [
  z.strictObject({ role: z.literal('system'), content: contentSchema }),
  z.strictObject({ role: z.literal('user'), content: contentSchema }),
  z.strictObject({
    role: z.literal('assistant'),
    content: contentSchema.nullable(),
    tool_calls: z.array(messageToolCallSchema).optional(),
    providerData: providerDataSchema.optional(),
  }),
  z.strictObject({
    role: z.literal('tool'),
    tool_call_id: toolCallIdSchema,
    content: contentSchema,
    /** The call failed or was not allowed: sent to providers that have a field for it. */
    isError: z.boolean().optional(),
  }),
]);
export type Message = z.infer<typeof messageSchema>;

/** Who sent a message to an agent. */
export const senderSchema = z.object({
  type: z.enum(['session', 'key']),
  id: idSchema,
  name: z.string(),
});
export type Sender = z.infer<typeof senderSchema>;

/** Names a message that a run received, and the delivery that brought it, if there was one. */
export const receivedMessageSchema = z.strictObject({
  messageId: idSchema,
  deliveryId: idSchema.optional(),
});
export type ReceivedMessage = z.infer<typeof receivedMessageSchema>;

/** When a message enters a run that is already working. */
export const messageModes = ['immediate', 'next-tool-call', 'next-message'] as const;
export type MessageMode = (typeof messageModes)[number];

/** The text of a message, without its images and files. */
export function textOf(content: MessageContent | null): string {
  if (content === null) return '';
  if (typeof content === 'string') return content;
  return content.map((part) => (part.type === 'text' ? part.text : '')).join('');
}

/** An image or a file: its bytes, or a URL that the provider fetches. */
export type Attachment =
  | { readonly kind: 'data'; readonly mediaType: string; readonly base64: string }
  | { readonly kind: 'url'; readonly mediaType: string | undefined; readonly url: string };

export function attachmentOf(part: AttachmentPart): Attachment {
  const { mediaType, data, url = '' } = part;
  if (data !== undefined) return { kind: 'data', mediaType: mediaType ?? '', base64: data };
  const [head, named = ''] = dataUrlForm.exec(url) ?? [];
  if (head === undefined) return { kind: 'url', mediaType, url };
  return { kind: 'data', mediaType: mediaType ?? named, base64: url.slice(head.length) };
}

function isAttachmentUrl(url: string): boolean {
  const [head, mediaType = ''] = dataUrlForm.exec(url) ?? [];
  if (head === undefined) return httpsForm.test(url);
  return mediaTypeForm.test(mediaType) && base64Form.test(url.slice(head.length));
}

function checkSource(
  part: { type: 'image' | 'file'; data?: unknown; url?: unknown; mediaType?: string | undefined },
  context: z.RefinementCtx,
): void {
  const { data, url, mediaType } = part;
  if ((data === undefined) === (url === undefined)) {
    context.addIssue({ code: 'custom', path: ['data'], message: 'Set either data or url' });
  } else if (data !== undefined && mediaType === undefined) {
    context.addIssue({ code: 'custom', path: ['mediaType'], message: 'Required with data' });
  }
  if (part.type === 'image' && mediaType !== undefined && !/^image\//i.test(mediaType)) {
    context.addIssue({
      code: 'custom',
      path: ['mediaType'],
      message: 'Must be an image type, such as image/png',
    });
  }
}
