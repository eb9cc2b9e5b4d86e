// Runs the test projects whose names begin so: `node scripts/test.mjs behaviour` or `faults`.
import { runNode, setUp } from './setup.mjs';
import { describeSkipped, readReport, reportFile } from './summary.mjs';

const [project, ...args] = process.argv.slice(2);
setUp();
runNode([
  'node_modules/vitest/vitest.mjs',
  'run',
  `--project=${project}*`,
  '--reporter=default',
  '--reporter=json',
  `--outputFile.json=${reportFile(project)}`,
  ...args,
]);
const skipped = describeSkipped([readReport(project)]);
if (skipped !== undefined) console.log(skipped);
