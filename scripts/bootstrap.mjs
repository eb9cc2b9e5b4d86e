import { runNode, setUp } from './setup.mjs';

setUp();
runNode(['packages/server/src/bootstrap.ts', ...process.argv.slice(2)]);
