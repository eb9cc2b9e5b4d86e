import { describe, expect, expectTypeOf, it } from 'vitest';
import type { z } from 'zod';
import type { ChatFrame } from '../../src/dialects/chat.ts';
import { dialects } from '../../src/dialects/index.ts';
import type { RunsFrame } from '../../src/dialects/runs.ts';
import { openApiDocument } from '../../src/openapi/document.ts';
import { chatFrameSchema, runsFrameSchema, runtimeFrameSchema } from '../../src/openapi/frames.ts';
import { framesOf, onTheWire } from '../dialects/fixture-journal.ts';

const schemas = { runs: runsFrameSchema, chat: chatFrameSchema, runtime: runtimeFrameSchema };

describe.each(['runs', 'chat', 'runtime'] as const)('the schema of the frames of %s', (name) => {
  const frames = framesOf(dialects[name]).flatMap(([, frame]) =>
    frame === undefined ? [] : [onTheWire(frame)],
  );

  it('describes every frame, to the last field', () => {
    expect(frames.length).toBeGreaterThan(10);
    for (const frame of frames) expect(schemas[name].parse(frame)).toEqual(frame);
  });

  it('has no frame that the dialect does not have', () => {
    const sent = new Set(frames.map((frame) => (frame as { type: string }).type));
    // Not of the journal.
    sent.add('connected');
    const described = schemas[name].options.flatMap(({ shape: { type } }) =>
      'values' in type ? [...type.values] : type.options,
    );
    expect(described.filter((type) => !sent.has(type))).toEqual([]);
  });
});

it('the types of frames are those of their schemas', () => {
  expectTypeOf<RunsFrame['type']>().toEqualTypeOf<z.infer<typeof runsFrameSchema>['type']>();
  expectTypeOf<ChatFrame['type']>().toEqualTypeOf<z.infer<typeof chatFrameSchema>['type']>();
});

it('the OpenAPI document names the schema of the frames of every stream', () => {
  const { paths } = openApiDocument('1.2.3');
  const streams = Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).flatMap(([method, { responses }]) => {
      const { content = {} } = (responses as Record<string, { content?: object }>)['200'] ?? {};
      const stream = (content as Record<string, { 'x-itemSchema'?: unknown } | undefined>)[
        'text/event-stream'
      ];
      return stream === undefined ? [] : [[`${method} ${path}`, stream['x-itemSchema']] as const];
    }),
  );
  const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` });
  expect(Object.fromEntries(streams)).toEqual({
    'post /chat': ref('ChatFrame'),
    'post /v1/runs': ref('RunsFrame'),
    'get /v1/runs/{id}/stream': {
      anyOf: [ref('RunsFrame'), ref('ChatFrame'), ref('RuntimeFrame')],
    },
    'get /v1/runs/{id}/events/stream': ref('RunEvent'),
    'get /v1/feed': ref('FeedFrame'),
    'post /api/chat': ref('RuntimeFrame'),
    'get /v1/sessions/{id}/stream': ref('SessionFrame'),
    'get /v1/sessions/{id}/deliveries/stream': ref('DeliveryFrame'),
  });
});
