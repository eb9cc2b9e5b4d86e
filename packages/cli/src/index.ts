export { runCli } from './main.ts';
export type { World } from './world.ts';
