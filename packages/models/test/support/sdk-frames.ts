/** What the providers' own APIs stream, as they write it. */
import type { Script } from './scripted-provider.ts';

export function streaming(frames: readonly object[]): Script {
  return (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end(frames.map(framed).join(''));
  };
}

function framed(frame: object): string {
  const { type } = frame as { type?: string };
  return `${type === undefined ? '' : `event: ${type}\n`}data: ${JSON.stringify(frame)}\n\n`;
}

/** An answer of Anthropic in one block, with extra fields at its end. */
export function anthropicFrames(
  blocks: readonly (readonly object[])[],
  end: { reason?: string; usage?: object } = {},
): object[] {
  const usage = { input_tokens: 10, output_tokens: 1, ...end.usage };
  return [
    {
      type: 'message_start',
      message: { id: 'msg_1', model: 'claude', role: 'assistant', content: [], usage },
    },
    ...blocks.flatMap(([start, ...deltas], index) => [
      { type: 'content_block_start', index, content_block: start },
      ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
      { type: 'content_block_stop', index },
    ]),
    {
      type: 'message_delta',
      delta: { stop_reason: end.reason ?? 'end_turn', stop_sequence: null },
      usage: { output_tokens: 7 },
    },
    { type: 'message_stop' },
  ];
}

export const anthropicText = (text: string) => [
  { type: 'text', text: '' },
  { type: 'text_delta', text },
];

export function responsesFrames(
  items: readonly object[],
  end: { type?: string; response?: object } = {},
): object[] {
  const response = { id: 'resp_1', object: 'response', created_at: 1, model: 'gpt-5' };
  const usage = {
    input_tokens: 100,
    input_tokens_details: { cached_tokens: 60 },
    output_tokens: 30,
    output_tokens_details: { reasoning_tokens: 20 },
    total_tokens: 130,
  };
  return [
    { type: 'response.created', response },
    ...items,
    { type: end.type ?? 'response.completed', response: { ...response, usage, ...end.response } },
  ];
}

export function responsesText(text: string): object[] {
  const item = { type: 'message', id: 'msg_1', role: 'assistant', content: [] };
  const position = { output_index: 0, item_id: 'msg_1', content_index: 0 };
  return [
    { type: 'response.output_item.added', output_index: 0, item },
    { type: 'response.output_text.delta', ...position, delta: text },
    { type: 'response.output_item.done', output_index: 0, item },
  ];
}

export function responsesRefusal(refusal: string): object[] {
  const item = { type: 'message', id: 'msg_1', role: 'assistant', content: [] };
  const done = { ...item, content: [{ type: 'refusal', refusal }] };
  const position = { output_index: 0, item_id: 'msg_1', content_index: 0 };
  return [
    { type: 'response.output_item.added', output_index: 0, item },
    { type: 'response.refusal.delta', ...position, delta: refusal },
    { type: 'response.refusal.done', ...position, refusal },
    { type: 'response.output_item.done', output_index: 0, item: done },
  ];
}

export function googleFrame(parts: readonly object[], more: object = {}): object {
  return {
    candidates: [{ content: { role: 'model', parts }, finishReason: 'STOP', ...more }],
    usageMetadata: {
      promptTokenCount: 100,
      cachedContentTokenCount: 60,
      candidatesTokenCount: 10,
      thoughtsTokenCount: 20,
      totalTokenCount: 130,
    },
  };
}
