/** The world as core sees it: everything it needs from outside, and nothing more. */
export * from './ports/agent.ts';
export type * from './ports/embedder.ts';
export type * from './ports/hints.ts';
export * from './ports/model.ts';
export * from './ports/store.ts';
export * from './ports/tool.ts';
export * from './ports/world.ts';
