// The last line of a check: what the last runs of the given test projects counted, in all. A skipped
// test counts as failed, unless the machine cannot run it; those are named in a line of their own.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { root } from './setup.mjs';

export function reportFile(project) {
  return `${root}.cache/tests-${project}.json`;
}

export function readReport(project) {
  try {
    return JSON.parse(readFileSync(reportFile(project), 'utf8'));
  } catch {
    return { success: false, testResults: [] };
  }
}

function testsOf(reports) {
  return reports.flatMap(({ testResults }) =>
    testResults.flatMap(({ assertionResults }) => assertionResults),
  );
}

/** "Skipped: 5 sandbox tests (bubblewrap is not installed), …"; undefined if none was. */
export function describeSkipped(reports) {
  const counts = new Map();
  for (const { meta } of testsOf(reports)) {
    if (meta?.skipped === undefined) continue;
    const { kind, because } = meta.skipped;
    const key = JSON.stringify([kind, because]);
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  if (counts.size === 0) return undefined;
  const parts = [...counts].map(([key, count]) => {
    const [kind, because] = JSON.parse(key);
    return `${count} ${kind} test${count === 1 ? '' : 's'} (${because})`;
  });
  return `Skipped: ${parts.join(', ')}`;
}

/** Files that failed outside of their tests, such as in an import. */
function brokenFiles(reports) {
  return reports.flatMap(({ testResults }) =>
    testResults.filter(
      ({ status, assertionResults }) =>
        status === 'failed' && !assertionResults.some((test) => test.status === 'failed'),
    ),
  );
}

function main(projects) {
  const reports = projects.map(readReport);
  const tests = testsOf(reports).filter(({ meta }) => meta?.skipped === undefined);
  const passed = tests.filter(({ status }) => status === 'passed').length;
  const failed = tests.length - passed + brokenFiles(reports).length;
  const skipped = describeSkipped(reports);
  if (skipped !== undefined) console.log(skipped);
  console.log(`${passed} passed, ${failed} failed`);
  const sound = failed === 0 && passed > 0 && reports.every(({ success }) => success);
  process.exitCode = sound ? 0 : 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main(process.argv.slice(2));
