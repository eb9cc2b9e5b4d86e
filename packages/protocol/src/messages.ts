import { z } from 'zod';
import { toolCallIdSchema } from './ids.ts';
import { providerDataSchema } from './provider-data.ts';

/** As much as a request body can hold, so that one part cannot ask for more than it brought. */
const maxAttachmentChars = 10 * 1024 * 1024;
const maxParts = 256;

const base64Form = /^[A-Za-z0-9+/]+={0,2}$/;
const mediaTypeForm = /^[a-z0-9][a-z0-9!#$&^_.+-]*\/[a-z0-9][a-z0-9!#$&^_.+-]*$/i;
/** Its bytes are looked at by `base64Form`, which is what they must be. */
const dataUrlForm = /^data:([^;,]+);base64,/i;

const httpsForm = /^https:\/\/[^\s/?#@\\]+(?:[/?#]\S*)?$/i;

const mediaTypeSchema = z
  .string()
  .max(128)
  .regex(mediaTypeForm, 'Must be a type such as image/png');
// What is too long is not searched: a regular expression may run out of stack.
const base64Schema = z
  .string()
  .max(maxAttachmentChars, { abort: true })
  .regex(base64Form, 'Must be base64');
const urlSchema = z.string().max(maxAttachmentChars).refine(isAttachmentUrl, {
  message: 'Must be an https URL, or a data URL in base64',
});

export const textPartSchema = z.strictObject({ type: z.literal('text'), text: z.string() });

/** Either its bytes in base64 with their type, or a URL. */
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
export type AttachmentPart = Exclude<ContentPart, { type: 'text' }>;

const contentSchema = z.union([z.string(), z.array(contentPartSchema).max(maxParts)]);
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
    providerData: providerDataSchema.optional(),
  }),
  z.strictObject({
    role: z.literal('tool'),
    tool_call_id: toolCallIdSchema,
    content: contentSchema,
  }),
]);
export type Message = z.infer<typeof messageSchema>;

/** The text of a message, without its images and files. */
export function textOf(content: MessageContent | null): string {
  if (content === null) return '';
  if (typeof content === 'string') return content;
  return content.map((part) => (part.type === 'text' ? part.text : '')).join('');
}

/** What an image or a file is: bytes of a known type, or a place where the provider finds it. */
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
    context.addIssue({ code: 'custom', path: ['data'], message: 'Either data or url is needed' });
  } else if (data !== undefined && mediaType === undefined) {
    context.addIssue({ code: 'custom', path: ['mediaType'], message: 'Required with data' });
  }
  if (part.type === 'image' && mediaType !== undefined && !/^image\//i.test(mediaType)) {
    context.addIssue({ code: 'custom', path: ['mediaType'], message: 'Must be a type of image' });
  }
}
