import { describe, expect, it } from 'vitest';
import { type MemoryAccount, MemoryBudget } from '../../src/runtime/memory-budget.ts';

/** As many accounts as may overdraw a budget, with 10 bytes each, and one more. */
function exhausted() {
  const budget = new MemoryBudget(50);
  const accounts = Array.from({ length: 5 }, () => budget.open());
  for (const account of accounts) account.add(10);
  const growing = accounts.filter((account) => account.mayGrow);
  const [blocked] = accounts.filter((account) => !growing.includes(account));
  const [first] = growing;
  if (blocked === undefined || first === undefined) throw new Error('No account is blocked');
  return { budget, growing, first, blocked };
}

function watch(account: MemoryAccount) {
  const seen = { woken: false };
  void account.wait().then(() => (seen.woken = true));
  return seen;
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('a memory budget', () => {
  it('lets every account grow while it is not used up', () => {
    const budget = new MemoryBudget(100);
    const accounts = [budget.open(), budget.open()];
    for (const account of accounts) account.add(49);
    expect(budget.hasRoom).toBe(true);
    expect(accounts.every((account) => account.mayGrow)).toBe(true);
  });

  it('admits nothing when it is used up, and lets only a few accounts grow', () => {
    const { budget, growing, blocked } = exhausted();
    expect(budget.hasRoom).toBe(false);
    expect(growing).toHaveLength(4);
    expect(growing.every((account) => account.mayGrow)).toBe(true);
    expect(blocked.mayGrow).toBe(false);
  });

  it('lets an account with little in it grow at any time', () => {
    const budget = new MemoryBudget(1024 * 1024);
    for (let n = 0; n < 5; n += 1) budget.open().add(1024 * 1024);
    const small = budget.open();
    small.add(512);
    expect(small.mayGrow).toBe(true);
  });

  it('wakes those that wait when memory is released', async () => {
    const { budget, first, blocked } = exhausted();
    const seen = watch(blocked);
    await turn();
    expect(seen.woken).toBe(false);
    first.settle(5);
    await turn();
    expect(seen.woken).toBe(true);
    expect(budget.hasRoom).toBe(true);
  });

  it('passes an overdraft on to the one that has waited longest', async () => {
    const { budget, first, blocked } = exhausted();
    const late = budget.open();
    late.add(10);
    const seen = [watch(blocked), watch(late)];
    first.settle(10);
    await turn();
    expect(seen.map(({ woken }) => woken)).toEqual([true, false]);
    expect([blocked.mayGrow, late.mayGrow, first.mayGrow]).toEqual([true, false, false]);
  });

  it('forgets an account that is closed, also while it waits', async () => {
    const { budget, blocked } = exhausted();
    const seen = watch(blocked);
    blocked.close();
    await turn();
    expect(seen.woken).toBe(true);
    expect(budget.used).toBe(40);
  });

  it('makes no account wait after it is closed', async () => {
    const { budget, blocked } = exhausted();
    const seen = watch(blocked);
    budget.close();
    await turn();
    expect(seen.woken).toBe(true);
    expect(blocked.mayGrow).toBe(true);
  });
});
