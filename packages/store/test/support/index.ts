export { createFaultyStore } from './faulty-store.ts';
export type { Fault, FaultyStore } from './faulty-store.ts';
