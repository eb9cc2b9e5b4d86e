import { type Harness, safeStates } from '@relay/core';

/** For completion and checks in an editor. Throws a TypeError that says what is wrong. */
export function defineHarness(harness: Harness): Harness {
  const problem = harnessProblem(harness);
  if (problem !== undefined) throw new TypeError(`${problem.path}: ${problem.message}`);
  return harness;
}

/** Every server has these. */
const builtIn: readonly string[] = ['native', 'remote', 'human'];

/** What is wrong with a definition, for code that is not type-checked. */
export function harnessProblem(
  harness: Partial<Record<keyof Harness, unknown>>,
): { readonly path: keyof Harness; readonly message: string } | undefined {
  const { name, create, attach, safeStates: safe } = harness;
  if (typeof name !== 'string' || !/^[a-z0-9][a-z0-9._-]{0,63}$/.test(name)) {
    return {
      path: 'name',
      message:
        'Must be 1 to 64 lower-case letters, digits, ".", "_" or "-", and begin with a letter or digit',
    };
  }
  if (builtIn.includes(name)) {
    return { path: 'name', message: `Every server has a harness ${name}; choose another name` };
  }
  if (typeof create !== 'function') return { path: 'create', message: 'Must be a function' };
  if (attach !== undefined && typeof attach !== 'function') {
    return { path: 'attach', message: 'Must be a function, or left out' };
  }
  const isSafe = (state: unknown) => safeStates.some((each) => each === state);
  if (safe === undefined || (Array.isArray(safe) && safe.length > 0 && safe.every(isSafe))) {
    return undefined;
  }
  return { path: 'safeStates', message: `Must be a list with some of ${safeStates.join(', ')}` };
}
