import { z } from 'zod';
import { defineTool } from '../define-tool.ts';

const schema = z.strictObject({
  a: z.number(),
  b: z.number(),
  op: z.enum(['+', '-', '*', '/']),
});

export const calculator = defineTool({
  name: 'calculator',
  description: 'Adds, subtracts, multiplies or divides two numbers.',
  schema,
  allowedByDefault: true,
  idempotent: true,
  execute(input) {
    const { a, b, op } = input;
    if (op === '/' && b === 0) throw new RangeError(`${a} cannot be divided by zero`);
    const result = calculate(input);
    if (!Number.isFinite(result)) {
      throw new RangeError(`The result of ${a} ${op} ${b} is too large`);
    }
    return { context: `${a} ${op} ${b} = ${result}`, result };
  },
});

function calculate({ a, b, op }: z.output<typeof schema>): number {
  switch (op) {
    case '+':
      return a + b;
    case '-':
      return a - b;
    case '*':
      return a * b;
    case '/':
      return a / b;
  }
}
