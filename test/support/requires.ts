/** Tests that need something of the machine are skipped where it is missing, and the run says why. */
import type { TestOptions } from 'vitest';

declare module 'vitest' {
  interface TaskMeta {
    /** Which tests these are, and why the machine cannot run them; read by `scripts/summary.mjs`. */
    skipped?: { readonly kind: string; readonly because: string };
  }
}

/** Options of a suite, such as `requires('sandbox', await bubblewrapProblem())`. */
export function requires(kind: string, problem: string | undefined): TestOptions {
  return problem === undefined ? {} : { skip: true, meta: { skipped: { kind, because: problem } } };
}

export function requiresLinux(): TestOptions {
  return requires('Linux', process.platform === 'linux' ? undefined : 'this is not Linux');
}
