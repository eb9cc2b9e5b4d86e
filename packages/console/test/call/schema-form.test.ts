import fc from 'fast-check';
import { createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { describe, expect, it } from 'vitest';
import {
  accepts,
  fieldOf,
  formatJson,
  formatNumber,
  parseJson,
  parseNumber,
  resolved,
  startValue,
  variantOf,
  withProperty,
} from '../../src/call/schema-fields.ts';
import { SchemaForm } from '../../src/call/schema-form.tsx';

/** As it arrives over the wire, where there is no `-0`. */
const json = fc.jsonValue().map((value) => JSON.parse(JSON.stringify(value)) as unknown);
const field = (schema: Record<string, unknown>) => fieldOf(schema, schema);

describe('Fields of a schema form', () => {
  it('give back every number as the same number', () => {
    const finite = fc.double({ noNaN: true, noDefaultInfinity: true });
    const beyondSafe = fc.integer({ min: 1 }).map((factor) => factor * 12_345_678_901_234);
    fc.assert(
      fc.property(fc.oneof(finite, fc.maxSafeInteger(), beyondSafe), (value) => {
        expect(parseNumber(formatNumber(value))).toEqual({ ok: true, value: value + 0 });
      }),
    );
  });

  it('give back every value that is edited as JSON with its types', () => {
    fc.assert(
      fc.property(json, (value) => {
        expect(parseJson(formatJson(value))).toEqual({ ok: true, value });
      }),
    );
  });

  it('escape hidden characters where they are edited as JSON', () => {
    expect(formatJson('a\u202eb\u{e0041}')).toBe(String.raw`"a\u202eb\udb40\udc41"`);
    const hidden = fc.array(fc.oneof(fc.constantFrom('\u202e', '\u200b', '\r', '\0'), fc.string()));
    fc.assert(
      fc.property(hidden, (parts) => {
        const text = formatJson(parts.join(''));
        expect(text).not.toMatch(/[\p{Cf}\p{Cc}]/v);
        expect(parseJson(text)).toEqual({ ok: true, value: parts.join('') });
      }),
    );
    expect(accepts(field({ type: 'string' }), 'a\u202eb')).toBe(false);
    expect(accepts(field({ type: 'string' }), 'two\nlines')).toBe(true);
    expect(accepts(field({ type: 'string' }), 'a\r\nb')).toBe(false);
  });

  it('never take a text for a number, nor a number for a text', () => {
    expect(accepts(field({ type: 'number' }), '5')).toBe(false);
    expect(accepts(field({ type: 'string' }), 5)).toBe(false);
    expect(accepts(field({ enum: ['5', 6] }), 5)).toBe(false);
    expect(field({ enum: ['5', 5] })).toMatchObject({ options: [{ value: '5' }, { value: 5 }] });
  });

  it('refuse a text that is no number, or that would be rounded', () => {
    for (const text of [
      'abc',
      '1,5',
      '1e',
      '--1',
      '0x10',
      'Infinity',
      '1e999',
      '9007199254740993',
    ]) {
      expect(parseNumber(text), text).toMatchObject({ ok: false });
    }
    expect(parseNumber('')).toEqual({ ok: true, value: undefined });
    expect(parseNumber(' 1.50 ')).toEqual({ ok: true, value: 1.5 });
    expect(parseNumber('9007199254740992')).toEqual({ ok: true, value: 2 ** 53 });
    expect(parseJson('{"a":')).toMatchObject({ ok: false });
    // They would become other numbers, or null.
    for (const text of [
      '9007199254740993',
      '1e400',
      '-1e999',
      '1e-400',
      '0.10000000000000000055',
    ]) {
      expect(parseJson(`{"a":[${text}]}`), text).toMatchObject({ ok: false });
    }
    for (const value of [2 ** 53 - 1, 2 ** 60, 1e300, 5e-324, 0.1, 0, 123.456]) {
      expect(parseJson(`[${value}]`)).toEqual({ ok: true, value: [value] });
    }
    expect(parseJson('[1.50, 100e2, 0.000]')).toEqual({ ok: true, value: [1.5, 10_000, 0] });
  });

  it('keep all other properties and their order when one is changed', () => {
    const record = fc.dictionary(fc.string(), json, { minKeys: 1, noNullPrototype: true });
    fc.assert(
      fc.property(record, fc.nat(), json, (value, at, next) => {
        const names = Object.keys(value);
        const name = names[at % names.length]!;
        const changed = withProperty(value, name, next);
        expect(Object.keys(changed)).toEqual(names);
        expect(changed[name]).toEqual(next);
        for (const other of names) if (other !== name) expect(changed[other]).toBe(value[other]);
        expect(Object.keys(withProperty(value, name, undefined))).toEqual(
          names.filter((each) => each !== name),
        );
      }),
    );
  });

  it('distinguish an absent property from an empty one', () => {
    expect(withProperty({ a: 1 }, 'b', '')).toEqual({ a: 1, b: '' });
    expect(withProperty({ a: 1, b: '' }, 'b', undefined)).toEqual({ a: 1 });
    expect(withProperty(undefined, 'a', null)).toEqual({ a: null });
  });

  it('are chosen by the schema, and are JSON where it says something else', () => {
    const kind = (schema: Record<string, unknown>) => field(schema).kind;
    expect(kind({ type: 'string' })).toBe('text');
    expect(kind({ type: 'integer' })).toBe('number');
    expect(kind({ type: 'boolean' })).toBe('choice');
    expect(kind({ const: 'x' })).toBe('choice');
    expect(kind({ oneOf: [{ const: 'a', title: 'A' }, { const: 1 }] })).toBe('choice');
    expect(kind({ type: ['string', 'null'] })).toBe('variants');
    expect(kind({ anyOf: [{ type: 'string' }, { type: 'object' }] })).toBe('variants');
    expect(kind({ properties: {} })).toBe('group');
    expect(kind({ type: 'array', items: {} })).toBe('list');
    expect(kind({ type: 'array', prefixItems: [{}] })).toBe('json');
    expect(kind({ allOf: [{}] })).toBe('json');
    expect(kind({})).toBe('json');
  });

  it('follow local references, also those that never end', () => {
    const root = { $defs: { a: { type: 'integer' }, loop: { $ref: '#/$defs/loop' } } };
    expect(resolved({ $ref: '#/$defs/a', title: 'A' }, root)).toEqual({
      type: 'integer',
      title: 'A',
    });
    expect(fieldOf(resolved({ $ref: '#/$defs/loop' }, root), root).kind).toBe('json');
  });

  it('show the variant that a value matches', () => {
    const root = {
      $defs: { b: { type: 'object', properties: { kind: { const: 'b' } }, required: ['kind'] } },
      anyOf: [
        { type: 'object', properties: { kind: { const: 'a' } }, required: ['kind'] },
        { $ref: '#/$defs/b' },
        { type: 'null' },
      ],
    };
    const found = fieldOf(root, root);
    if (found.kind !== 'variants') throw new Error(found.kind);
    expect(variantOf(found.variants, { kind: 'b' }, root)).toBe(1);
    expect(variantOf(found.variants, null, root)).toBe(2);
    expect(variantOf(found.variants, { kind: 'c' }, root)).toBe(0);
  });

  it('start with the default, else with a value of the type', () => {
    const start = (schema: Record<string, unknown>) => startValue(schema, schema);
    expect(start({ type: 'string', default: 'x' })).toBe('x');
    expect(start({ type: 'string' })).toBe('');
    expect(start({ type: 'array' })).toEqual([]);
    expect(start({ anyOf: [{ type: 'integer' }, { type: 'null' }] })).toBe(0);
  });
});

describe('SchemaForm', () => {
  const render = (props: Parameters<typeof SchemaForm>[0]) =>
    renderToStaticMarkup(createElement(SchemaForm, props));
  const schema = {
    type: 'object',
    required: ['to', 'count'],
    properties: {
      to: { type: 'string', title: 'Recipient' },
      count: { type: 'integer', minimum: 1 },
      note: { type: 'string' },
    },
  };
  const onChange = () => undefined;

  it('shows what is wrong in words at the field', () => {
    const html = render({ schema, value: { to: 'ada', count: 0 }, onChange });
    expect(html).toMatch(/text-failed[^>]*>Must be at least 1</);
  });

  it('shows what the server says at the field and above the form', () => {
    const problems = [{ path: 'to', message: 'No such person' }];
    const html = render({ schema, value: { to: 'x', count: 1 }, onChange, problems });
    expect(html.match(/No such person/g)).toHaveLength(2);
  });

  it('shows fields that the schema does not name', () => {
    const html = render({ schema, value: { to: 'x', count: 1, 'ex\u200btra': '5' }, onChange });
    expect(html).toContain('U+200B ZWSP');
    expect(html).toContain('&quot;5&quot;');
  });

  it('edits a value of another type as JSON, and says so', () => {
    const html = render({ schema, value: { to: 5, count: '5' }, onChange });
    expect(html).toMatch(/>5<\/textarea>/);
    expect(html).toMatch(/>&quot;5&quot;<\/textarea>/);
    expect(html).toContain('Must be string');
    expect(html).toContain('Must be integer');
  });

  it('shows a value of any size and depth', () => {
    let deep: unknown = 1;
    for (let at = 0; at < 20_000; at += 1) deep = { deep };
    const root = {
      $defs: { node: { properties: { deep: { $ref: '#/$defs/node' } } } },
      $ref: '#/$defs/node',
    };
    expect(render({ schema: root, value: deep, onChange })).toContain('textarea');
    const many = Object.fromEntries(Array.from({ length: 5_000 }, (_, at) => [`f${at}`, at]));
    expect(
      render({ schema: { type: 'object' }, value: many, onChange }).match(/<textarea/g),
    ).toHaveLength(1);
  });

  it('labels the only field of a schema that is not an object', () => {
    const html = render({ schema: { type: 'string', title: 'City' }, value: undefined, onChange });
    const [, id] = /<label for="([^"]+)"/.exec(html) ?? [];
    expect(html).toContain(`id="${id}" aria-describedby`);
    expect(html).toContain('City');
  });

  it('shows a bounded number of fields of a schema that refers to itself', () => {
    const names = Array.from({ length: 20 }, (_, at) => `p${at}`);
    const node = {
      type: 'object',
      required: names,
      properties: Object.fromEntries(names.map((name) => [name, { $ref: '#/$defs/node' }])),
    };
    const html = render({ schema: { $defs: { node }, $ref: '#/$defs/node' }, value: {}, onChange });
    expect(html.match(/<fieldset/g)?.length).toBe(20 + 20 * 20);
  });
});
