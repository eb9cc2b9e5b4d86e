import { chat } from './chat.ts';
import type { Dialect } from './dialect.ts';
import { runs } from './runs.ts';
import { runtime } from './runtime.ts';

export const dialects = { chat, runtime, runs } as const satisfies Record<string, Dialect>;
export type DialectName = keyof typeof dialects;

export { runtimeStatus } from './runtime.ts';
export { failureOutput } from './dialect.ts';
export type { Dialect, Frame, RunHeader } from './dialect.ts';
