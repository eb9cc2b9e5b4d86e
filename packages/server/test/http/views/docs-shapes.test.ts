import { describe, expect, it } from 'vitest';
import { shapeOf } from '../../../src/http/views/docs-shapes.ts';

describe('a schema as people read it', () => {
  it.each([
    [{ type: 'string' }, 'string'],
    [{ type: 'string', format: 'uuid', pattern: '^x$' }, 'uuid'],
    [{ type: 'string', minLength: 1, maxLength: 64 }, 'string (1–64 characters)'],
    [{ type: 'integer', minimum: 1 }, 'integer (at least 1)'],
    [{ type: 'integer', minimum: Number.MIN_SAFE_INTEGER }, 'integer'],
    [{ type: ['string', 'null'] }, 'string | null'],
    [{ const: 'a<b' }, '&quot;a&lt;b&quot;'],
    [{ enum: ['a', 1] }, '&quot;a&quot; | 1'],
    [{ anyOf: [{ type: 'string' }, { type: 'string' }, { type: 'null' }] }, 'string | null'],
    [{ allOf: [{ type: 'string' }, { const: 1 }] }, 'string & 1'],
    [{ type: 'array', items: { enum: [1, 2] }, maxItems: 9 }, '(1 | 2)[] (0–9)'],
    [{ type: 'object', additionalProperties: { type: 'boolean' } }, '{ [name]: boolean }'],
    [{ type: 'object', additionalProperties: false }, '{}'],
    [{ $ref: '#/components/schemas/Run' }, '<a href="#type-Run">Run</a>'],
    [{ $ref: '#/components/schemas/Json' }, 'JSON'],
    [{}, 'JSON'],
    [true, 'JSON'],
  ])('%j is %s', (schema, shape) => {
    expect(shapeOf(schema)).toBe(shape);
  });

  it('has fields one a line, marked where they may be left out, with what is said of them', () => {
    const inner = { type: 'object', properties: { b: { type: 'boolean' } }, required: ['b'] };
    const schema = {
      type: 'object',
      properties: { a: { type: 'string', description: 'A <name>' }, inner },
      required: ['inner'],
    };
    expect(shapeOf(schema)).toBe(
      '{\n  a?: string <i>A &lt;name&gt;</i>\n  inner: {\n    b: boolean\n  }\n}',
    );
  });
});
