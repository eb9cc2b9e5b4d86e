// The last lines of a check: which tests failed, and what the last runs of the given test projects
// counted, in all. A skipped test counts as failed, unless the machine cannot run it; those are named in
// a line of their own.
import { readFileSync } from 'node:fs';
import { relative } from 'node:path';
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

const maxListed = 20;

/** "Failed: FILE › TEST: MESSAGE", one line each. The output above it may be cut off. */
function describeFailed(reports) {
  const lines = reports.flatMap(({ testResults }) =>
    testResults.flatMap(({ name, assertionResults }) =>
      assertionResults
        .filter(({ status, meta }) => status !== 'passed' && meta?.skipped === undefined)
        .map(({ fullName, status, failureMessages = [] }) => {
          const [message = status] = (failureMessages[0] ?? status).split('\n');
          return `Failed: ${relative(root, name)} › ${fullName}: ${message}`;
        }),
    ),
  );
  for (const { name, message } of brokenFiles(reports)) {
    lines.push(`Failed: ${relative(root, name)}: ${(message ?? '').split('\n')[0]}`);
  }
  const more = lines.length - maxListed;
  return more > 0 ? [...lines.slice(0, maxListed), `Failed: ${more} more`] : lines;
}

function main(projects) {
  const reports = projects.map(readReport);
  const tests = testsOf(reports).filter(({ meta }) => meta?.skipped === undefined);
  const passed = tests.filter(({ status }) => status === 'passed').length;
  const failed = tests.length - passed + brokenFiles(reports).length;
  const skipped = describeSkipped(reports);
  if (skipped !== undefined) console.log(skipped);
  for (const line of describeFailed(reports)) console.log(line);
  console.log(`${passed} passed, ${failed} failed`);
  const sound = failed === 0 && passed > 0 && reports.every(({ success }) => success);
  process.exitCode = sound ? 0 : 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main(process.argv.slice(2));
