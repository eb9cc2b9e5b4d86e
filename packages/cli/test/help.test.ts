import { describe, expect, test } from 'vitest';
import { count, duration, json, jsonObject, moment, past } from '../src/help.ts';
import { patternsOf } from '../src/patterns.ts';

describe('a time', () => {
  test('is a date, or so long from now, or so long ago', () => {
    expect(moment('2030-01-01')).toBe('2030-01-01T00:00:00.000Z');
    expect(Date.parse(moment('2d')) - Date.now()).toBeCloseTo(172_800_000, -4);
    expect(Date.now() - Date.parse(past('2d'))).toBeCloseTo(172_800_000, -4);
    expect(past('2030-01-01T12:00:00Z')).toBe('2030-01-01T12:00:00.000Z');
    expect(duration('8w')).toBe(4_838_400);
  });

  test.each(['', 'soon', '5', '5y', '-1d', '99999999999999w'])('is not %j', (text) => {
    expect(() => moment(text === '5' ? 'x5' : text)).toThrow('It must be a date');
    expect(() => duration(text === '99999999999999w' ? 'x' : text)).toThrow('It must be like');
  });
});

test('a count is a whole number from 1 on', () => {
  expect(count('17')).toBe(17);
  for (const text of ['0', '-1', '1.5', 'many', '', '9999999999'])
    expect(() => count(text)).toThrow();
});

test('arguments are JSON, and objects where names are needed', () => {
  expect(json('[1]')).toEqual([1]);
  expect(jsonObject('{"a": 1}')).toEqual({ a: 1 });
  for (const text of ['[1]', 'null', '1', '{']) expect(() => jsonObject(text)).toThrow(/JSON/);
});

test('patterns are NAME=VALUE, and a value may hold more of them', () => {
  expect(patternsOf(['to=ada', 'text=a=b', 'empty='])).toEqual({
    to: 'ada',
    text: 'a=b',
    empty: '',
  });
  for (const text of ['novalue', '=x'])
    expect(() => patternsOf([text])).toThrow('must be NAME=VALUE');
});

test('a parameter named __proto__ is a parameter, and nothing else', () => {
  const patterns = patternsOf(['__proto__=x']);
  expect(Object.keys(patterns)).toEqual(['__proto__']);
  expect(Object.getPrototypeOf(patterns)).toBe(Object.prototype);
});
