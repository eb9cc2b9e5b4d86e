import { describe, expect, test } from 'vitest';
import { count, duration, futureTime, json, jsonObject, pastTime } from '../src/options.ts';
import { timeoutOption } from '../src/deadline.ts';
import { patternsOf } from '../src/commands/agents/grants.ts';

describe('a time option', () => {
  test('is a date, or a duration from now or before now', () => {
    expect(futureTime('2030-01-01')).toBe('2030-01-01T00:00:00.000Z');
    expect(Date.parse(futureTime('2d')) - Date.now()).toBeCloseTo(172_800_000, -4);
    expect(Date.now() - Date.parse(pastTime('2d'))).toBeCloseTo(172_800_000, -4);
    expect(pastTime('2030-01-01T12:00:00Z')).toBe('2030-01-01T12:00:00.000Z');
    expect(duration('8w')).toBe(4_838_400);
  });

  test.each(['', 'soon', '5', '5y', '-1d', '99999999999999w'])('rejects %j', (text) => {
    expect(() => futureTime(text === '5' ? 'x5' : text)).toThrow('Must be a date');
    expect(() => duration(text === '99999999999999w' ? 'x' : text)).toThrow('Must be a duration');
  });
});

test('a timeout is as long as a timer can be, at most', () => {
  const parse = (text: string) => timeoutOption().parseArg?.(text, undefined);
  expect(parse('24d')).toBe(2_073_600);
  expect(() => parse('banana')).toThrow('Must be a duration such as 90s or 5m.');
  for (const text of ['25d', '4w', '2147484s']) {
    expect(() => parse(text)).toThrow('Must be at most 24d');
  }
});

test('a count is a positive integer', () => {
  expect(count('17')).toBe(17);
  for (const text of ['0', '-1', '1.5', 'many', '', '9999999999'])
    expect(() => count(text)).toThrow();
});

test('JSON options parse JSON, and objects where required', () => {
  expect(json('[1]')).toEqual({ value: [1] });
  expect(json('null')).toEqual({ value: null });
  expect(jsonObject('{"a": 1}')).toEqual({ a: 1 });
  for (const text of ['[1]', 'null', '1', '{']) expect(() => jsonObject(text)).toThrow(/JSON/);
});

test('patterns are NAME=VALUE, and the value can contain "="', () => {
  expect(patternsOf(['to=ada', 'text=a=b', 'empty='])).toEqual({
    to: 'ada',
    text: 'a=b',
    empty: '',
  });
  for (const text of ['novalue', '=x'])
    expect(() => patternsOf([text])).toThrow('must be NAME=VALUE');
});

test('a parameter named __proto__ does not change the prototype', () => {
  const patterns = patternsOf(['__proto__=x']);
  expect(Object.keys(patterns)).toEqual(['__proto__']);
  expect(Object.getPrototypeOf(patterns)).toBe(Object.prototype);
});
