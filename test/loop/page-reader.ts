/**
 * A model that reads pages by a tool, one per turn. Its next step depends only on the request, so that
 * a compaction or a crash in between changes nothing.
 */
import { type Model, type ModelEvent, type ModelRequest, ProviderFailure } from '@relay/core';
import { createRecordingTool, finish, text, toolCall } from '@relay/core/testing';
import { type Message, textOf } from '@relay/protocol';
import { expect } from 'vitest';

export interface PageReader extends Model {
  /** Turns, without those of the summarizer. */
  readonly requests: readonly ModelRequest[];
  readonly summaries: readonly ModelRequest[];
}

export interface PageReaderOptions {
  readonly pages: number;
  /** The context window. Left out: unknown. */
  readonly contextTokens?: number;
  /** Longer requests are refused. */
  readonly refusesAbove?: number;
  /** The output of the summarizer; left out: up to which page it has read. */
  summarize?(request: ModelRequest, signal: AbortSignal): AsyncIterable<readonly ModelEvent[]>;
  /** The provider's name for every call; left out, each has its own. */
  readonly callId?: string;
}

export function createPageReader(options: PageReaderOptions): PageReader {
  const { pages, contextTokens, refusesAbove = Infinity } = options;
  const requests: ModelRequest[] = [];
  const summaries: ModelRequest[] = [];
  return {
    requests,
    summaries,
    ...(contextTokens === undefined ? {} : { contextTokens }),
    async *stream(request, signal) {
      if (isSummarizing(request)) {
        summaries.push(request);
        if (options.summarize === undefined) yield summaryOf(request);
        else yield* options.summarize(request, signal);
        return;
      }
      requests.push(request);
      if (sizeOf(request) > refusesAbove) {
        throw new ProviderFailure('Too long', { retryable: false, contextExceeded: true });
      }
      const page = lastPage(request) + 1;
      const id = options.callId ?? `call_${page}`;
      if (request.tools.length === 0 || page > pages) yield [text('All read.'), finish()];
      else yield [text(`On to ${page}. `), toolCall(id, 'read', { page }), finish()];
    },
  };
}

/** Pages of about so many tokens. */
export function createPages(tokens: number | ((page: number) => number)) {
  const sizeOfPage = typeof tokens === 'number' ? () => tokens : tokens;
  return createRecordingTool({
    name: 'read',
    allowedByDefault: true,
    idempotent: true,
    execute(input) {
      const { page } = input as { page: number };
      return { context: `page ${page} ${'word'.repeat(sizeOfPage(page))}` };
    },
  });
}

export function summaryOf(request: ModelRequest): ModelEvent[] {
  return [text(`It has read up to page ${lastPage(request)}`), finish()];
}

export function isSummarizing({ messages }: ModelRequest): boolean {
  return textOf(messages[0]?.content ?? '').startsWith('Summarize this conversation');
}

/** Roughly as Relay counts it: only messages matter in these tests. */
export function sizeOf({ messages }: ModelRequest): number {
  return Math.ceil(JSON.stringify(messages).length / 4);
}

function lastPage({ messages }: ModelRequest): number {
  const found = [...JSON.stringify(messages).matchAll(/page (\d+)/g)].map(([, n]) => Number(n));
  return Math.max(0, ...found);
}

/** What a provider would refuse: a result without its call, or a call without its result. */
export function expectWhole(messages: readonly Message[]): void {
  const open = new Set<string>();
  for (const message of messages) {
    if (message.role === 'tool') {
      expect(open.delete(message.tool_call_id), message.tool_call_id).toBe(true);
      continue;
    }
    expect([...open]).toEqual([]);
    if (message.role !== 'assistant') continue;
    for (const { id } of message.tool_calls ?? []) open.add(id);
  }
  expect([...open]).toEqual([]);
}

export function hasSummary({ messages }: ModelRequest): boolean {
  return messages.some(
    ({ role, content }) =>
      role === 'user' && textOf(content).startsWith('Summary of the earlier conversation'),
  );
}
