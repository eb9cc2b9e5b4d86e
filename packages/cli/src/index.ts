export { runCli } from './main.ts';
export type { CliEnvironment } from './environment.ts';
