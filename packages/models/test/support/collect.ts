import type { Model, ModelEvent, ModelRequest } from '@relay/core';

export function asking(text: string, more: Partial<ModelRequest> = {}): ModelRequest {
  return { model: 'scripted', messages: [{ role: 'user', content: text }], tools: [], ...more };
}

export async function batchesOf(
  model: Model,
  request: ModelRequest,
  signal: AbortSignal = new AbortController().signal,
): Promise<(readonly ModelEvent[])[]> {
  const batches: (readonly ModelEvent[])[] = [];
  for await (const batch of model.stream(request, signal)) batches.push(batch);
  return batches;
}

export async function eventsOf(
  model: Model,
  request: ModelRequest,
  signal?: AbortSignal,
): Promise<ModelEvent[]> {
  return (await batchesOf(model, request, signal)).flat();
}

/** All text of the events. */
export function textIn(events: readonly ModelEvent[]): string {
  return events.map((event) => (event.type === 'text' ? event.text : '')).join('');
}
