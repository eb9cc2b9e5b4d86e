import { runNode, setUp } from './setup.mjs';

setUp();
runNode([
  'node_modules/vitest/vitest.mjs',
  'run',
  '--reporter=default',
  '--reporter=json',
  '--outputFile.json=.cache/tests.json',
  ...process.argv.slice(2),
]);
