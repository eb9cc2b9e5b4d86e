/** Everything that the core needs from outside. */
export type * from './accounts.ts';
export type * from './agent.ts';
export type * from './approvals.ts';
export * from './commands.ts';
export type * from './environment.ts';
export type * from './governance.ts';
export type * from './harness.ts';
export * from './memories.ts';
export * from './model.ts';
export * from './runs.ts';
export * from './sessions.ts';
export * from './store.ts';
export * from './tool.ts';
