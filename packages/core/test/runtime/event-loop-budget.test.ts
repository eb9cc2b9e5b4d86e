import { expect, it } from 'vitest';
import { EventLoopBudget } from '../../src/runtime/event-loop-budget.ts';

it('what exceeds the share of a turn waits for a later turn, in the order of arrival', async () => {
  const budget = new EventLoopBudget(100);
  expect(budget.take(60)).toBeUndefined();
  expect(budget.take(40)).toBeUndefined();
  const order: string[] = [];
  const second = budget.take(60)?.then(() => order.push('second turn'));
  const third = budget.take(50)?.then(() => order.push('third turn'));
  // It would fit into the second turn, but came later.
  const last = budget.take(10)?.then(() => order.push('third turn, too'));
  await second;
  expect(order).toEqual(['second turn']);
  await third;
  await last;
  expect(order).toEqual(['second turn', 'third turn', 'third turn, too']);
});

it('a piece that is larger than the budget gets a turn of its own', async () => {
  const budget = new EventLoopBudget(100);
  expect(budget.take(500)).toBeUndefined();
  const next = budget.take(500);
  const last = budget.take(2);
  expect(next).toBeInstanceOf(Promise);
  await next;
  expect(budget.take(2)).toBeInstanceOf(Promise);
  await last;
});

it('a small piece never waits', () => {
  const budget = new EventLoopBudget(6400);
  expect(budget.take(6400)).toBeUndefined();
  expect(budget.take(101)).toBeInstanceOf(Promise);
  expect(budget.take(100)).toBeUndefined();
});
