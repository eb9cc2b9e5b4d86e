/** Results of tools: a short text for a model, and the same as data for programs. */
import type { CallToolResult } from '@modelcontextprotocol/server';
import { defined, escapeMisleading, type RelayError, type Sender } from '@relay/protocol';

export interface ToolAnswer {
  readonly isError?: true;
  readonly text: string;
  readonly data: Readonly<Record<string, unknown>>;
  /** Images and texts that belong to it. */
  readonly attachments?: CallToolResult['content'];
}

export function resultOf({ isError, text, data, attachments = [] }: ToolAnswer): CallToolResult {
  return {
    ...defined({ isError }),
    content: [{ type: 'text', text }, ...attachments],
    structuredContent: { ...data },
  };
}

/** The model can act on it: it names the code, the field or the capability, and what to do. */
export function failureOf(error: RelayError): CallToolResult {
  const body = error.toBody();
  const { capability } = error;
  const asked =
    capability === undefined
      ? ''
      : ` (${capability.path}: asked ${String(capability.asked)}, offered ${String(capability.offered)})`;
  return {
    isError: true,
    content: [{ type: 'text', text: `${body.code}: ${body.error}${asked}` }],
    structuredContent: { ...body },
  };
}

/** A text of several lines as one, which cannot look like the next item of a list. */
export function lineOf(text: string): string {
  return text.replaceAll(/\s*[\r\n]\s*/g, ' ');
}

export function listOf<Item extends object>(
  name: string,
  items: readonly Item[],
  nextCursor: string | null,
  line: (item: Item) => string,
): ToolAnswer {
  const lines = items.length === 0 ? [`No ${name}`] : items.map(line);
  const more = nextCursor === null ? [] : [`More with cursor ${nextCursor}`];
  return {
    text: [...lines, ...more].join('\n'),
    data: { [name]: items, ...defined({ nextCursor: nextCursor ?? undefined }) },
  };
}

interface Message {
  readonly id: string;
  readonly from: Pick<Sender, 'type' | 'name'>;
  readonly to: string | readonly string[];
  readonly text: string;
  readonly at: string;
  readonly replyTo?: string | undefined;
}

interface ShortMessage {
  readonly id: string;
  readonly from: string;
  readonly to: string;
  readonly at: string;
  readonly replyTo?: string;
  readonly text: string;
}

export function shortMessage({ id, from, to, text, at, replyTo }: Message): ShortMessage {
  return {
    id,
    from: from.type === 'session' ? `@${from.name}` : escapeMisleading(from.name),
    to: typeof to === 'string' ? to : to.join(' '),
    at,
    ...defined({ replyTo }),
    text,
  };
}

export function messageLine({ id, from, to, at, replyTo, text }: ShortMessage): string {
  const answers = replyTo === undefined ? '' : `, replyTo ${replyTo}`;
  return `[${id}] ${from} to ${to} at ${at}${answers}:\n${text}`;
}
