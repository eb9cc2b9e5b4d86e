import { describe, expect, test } from 'vitest';
import { toolOutputOf } from '../../src/index.ts';

const image = { type: 'image', mediaType: 'image/png', data: 'iVBORw0KGgo=' };

describe('What a tool returned', () => {
  test.each([
    { context: 'Sent' },
    { result: 5 },
    { context: 'Sent', result: { to: 'ada' } },
    { context: undefined, result: null },
    { attachments: [image] },
    { context: 'No chart', attachments: [] },
    {
      result: 1,
      attachments: [{ type: 'file', url: 'https://example.com/a.pdf', filename: 'a.pdf' }],
    },
  ])('is an output: %j', (returned) => {
    expect(toolOutputOf(returned)).toBe(returned);
  });

  test.each([
    {},
    { context: { page: 2 } },
    { context: 'Sent', result: 1, total: 2 },
    { attachments: 3 },
    { attachments: [] },
    { attachments: ['invoice.pdf'] },
    { attachments: [{ ...image, size: 12 }] },
    { attachments: [{ type: 'image', mediaType: 'image/png' }] },
    [1, 2],
    'Sent',
    null,
  ])('is the plain result: %j', (returned) => {
    expect(toolOutputOf(returned)).toEqual({ result: returned });
  });
});
