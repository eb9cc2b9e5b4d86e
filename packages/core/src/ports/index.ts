/** The world as core sees it: everything it needs from outside, and nothing more. */
export * from './agent.ts';
export type * from './embedder.ts';
export type * from './hints.ts';
export * from './model.ts';
export * from './store.ts';
export * from './tool.ts';
export * from './world.ts';
