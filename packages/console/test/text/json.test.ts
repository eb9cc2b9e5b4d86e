import fc from 'fast-check';
import { createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { describe, expect, it } from 'vitest';
import { Json } from '../../src/text/json.tsx';
import { type JsonRowState, jsonText, rowsOf } from '../../src/text/json-rows.ts';

const render = (value: unknown) => renderToStaticMarkup(createElement(Json, { value }));
const untouched: JsonRowState = { toggled: new Map(), shown: new Map(), isCollapsed: false };

function nested(depth: number): unknown {
  let value: unknown = 'end';
  for (let at = 0; at < depth; at += 1) value = at % 2 === 0 ? [value] : { value };
  return value;
}

describe('JSON', () => {
  it('distinguishes texts from numbers, booleans and null', () => {
    const rows = rowsOf({ a: '5', b: 5, c: true, d: null, e: 'null' }, untouched);
    expect(rows.slice(1).map(({ name, content }) => [name, content])).toEqual([
      ['a', { kind: 'scalar', value: '5' }],
      ['b', { kind: 'scalar', value: 5 }],
      ['c', { kind: 'scalar', value: true }],
      ['d', { kind: 'scalar', value: null }],
      ['e', { kind: 'scalar', value: 'null' }],
    ]);
    expect(render({ a: '5' })).toMatch(/&quot;<\/span>5<span/);
  });

  it('marks hidden characters in values and names', () => {
    expect(render({ 'na\u200bme': 'a\u202eb' })).toMatch(/U\+200B ZWSP.*U\+202E RLO/);
  });

  it('folds long texts with their length', () => {
    const html = render({ a: 'y'.repeat(1_000_000) });
    expect(html.length).toBeLessThan(5_000);
    expect(html).toContain('of 1,000,000 characters are not shown');
  });

  it('shortens long names, which are on a button', () => {
    const html = render({ ['n'.repeat(1_000)]: { a: 1 } });
    expect(html).toContain('… (+800 characters)');
    expect(html).not.toMatch(/<button[^>]*>(?:(?!<\/button>).)*<button/);
  });

  it('opens values of any depth level by level', () => {
    const value = nested(10_000);
    expect(rowsOf(value, untouched).length).toBeLessThan(10);
    const path = Array.from({ length: 10_001 }, (_, depth) => '/0'.repeat(depth));
    const toggled = new Map(path.map((id) => [id, true]));
    const rows = rowsOf(value, { ...untouched, toggled });
    expect(rows).toHaveLength(10_001);
    expect(rows.at(-1)).toMatchObject({ depth: 10_000, content: { value: 'end' } });
  });

  it('shows a part of 100,000 fields at a time', () => {
    const value = Object.fromEntries(Array.from({ length: 100_000 }, (_, at) => [`f${at}`, at]));
    expect(rowsOf(value, untouched)).toHaveLength(1);
    const toggled = new Map([['', true]]);
    const first = rowsOf(value, { ...untouched, toggled });
    expect(first).toHaveLength(102);
    expect(first.at(-1)?.content).toEqual({ kind: 'rest', parent: '', count: 99_900 });
    const more = rowsOf(value, { ...untouched, toggled, shown: new Map([['', 400]]) });
    expect(more).toHaveLength(402);
  });

  it('has a row for every field of a small value', () => {
    const count = (value: unknown): number =>
      typeof value === 'object' && value !== null
        ? Object.values(value).reduce<number>((sum, each) => sum + count(each), 1)
        : 1;
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 2 }), (value) => {
        expect(rowsOf(value, untouched)).toHaveLength(count(value));
      }),
    );
  });

  it('copies values of any depth as valid JSON', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(JSON.parse(jsonText(value))).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
    const text = jsonText(nested(50_000));
    expect(text.length).toBeLessThan(1_000_000);
    expect(text.startsWith('{"value":[{"value":[')).toBe(true);
  });
});
