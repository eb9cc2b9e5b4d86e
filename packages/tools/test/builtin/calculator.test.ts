import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { calculator } from '../../src/builtin/calculator.ts';
import { createToolContext } from '../support/tool-context.ts';

const calculate = (a: number, op: string, b: number) =>
  calculator.execute({ a, b, op }, createToolContext());

describe('the calculator', () => {
  it.each([
    [23, '*', 47, 1081],
    [1, '+', 2, 3],
    [1, '-', 2.5, -1.5],
    [7, '/', 2, 3.5],
    [0, '/', 5, 0],
    [-3, '*', -4, 12],
    [0.1, '+', 0.2, 0.1 + 0.2],
  ] as const)('%d %s %d = %d', async (...[a, op, b, result]) => {
    expect(await calculate(a, op, b)).toEqual({ context: `${a} ${op} ${b} = ${result}`, result });
  });

  it('is allowed by default, and idempotent', () => {
    expect(calculator).toMatchObject({
      name: 'calculator',
      allowedByDefault: true,
      idempotent: true,
    });
  });

  it.each([0, -0])('does not divide by %d', async (zero) => {
    await expect(calculate(5, '/', zero)).rejects.toThrow('5 cannot be divided by zero');
    await expect(calculate(0, '/', zero)).rejects.toThrow('0 cannot be divided by zero');
  });

  it.each([
    [1e308, '*', 10],
    [1e308, '+', 1e308],
    [-1e308, '-', 1e308],
    [1e308, '/', 1e-10],
  ] as const)('has no answer to %d %s %d', async (a, op, b) => {
    await expect(calculate(a, op, b)).rejects.toThrow(`The result of ${a} ${op} ${b} is too large`);
  });

  it('answers with a number that JSON can hold, or not at all', async () => {
    const number = fc.double({ noNaN: true, noDefaultInfinity: true });
    const op = fc.constantFrom('+', '-', '*', '/');
    await fc.assert(
      fc.asyncProperty(number, op, number, async (...[a, sign, b]) => {
        const output = await calculate(a, sign, b).catch(() => undefined);
        if (output !== undefined) expect(Number.isFinite(output.result)).toBe(true);
      }),
    );
  });

  it.each([
    {},
    { a: 1, b: 2 },
    { a: '1', b: 2, op: '+' },
    { a: 1, b: 2, op: '^' },
    { a: 1, b: null, op: '+' },
    { a: Infinity, b: 1, op: '+' },
    { a: NaN, b: 1, op: '+' },
    { a: 1, b: 2, op: '+', c: 3 },
  ])('refuses %j', (input) => {
    expect(calculator.validate(input).ok).toBe(false);
  });

  it('describes its operators to models', () => {
    expect(calculator.inputSchema).toMatchObject({
      type: 'object',
      required: ['a', 'b', 'op'],
      properties: { op: { enum: ['+', '-', '*', '/'] } },
    });
  });
});
