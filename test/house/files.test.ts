import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));

const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\n')
  .filter(
    (name) => /\.(ts|mjs)$/.test(name) && /^(packages|test|bench|scripts|examples)\//.test(name),
  )
  .map((name) => ({ name, lines: readFileSync(`${root}/${name}`, 'utf8').split('\n') }));

const isTest = (name: string) =>
  name.startsWith('test/') || /\.test\.ts$|\/(contract|testing)\//.test(name);
const sources = files.filter(({ name }) => name.startsWith('packages/') && !isTest(name));

function total(of: typeof files): number {
  return of.reduce((sum, { lines }) => sum + lines.length, 0);
}

describe('the files', () => {
  test('have one subject each: none is longer than 450 lines', () => {
    // A list of requirements is data and has one line an entry.
    const long = files.filter(
      ({ name, lines }) => lines.length > 450 && !name.startsWith('test/conformance/open'),
    );
    expect(long.map(({ name, lines }) => `${name}: ${lines.length}`)).toEqual([]);
  });

  test('are mostly short: the median source file is below 150 lines', () => {
    const lengths = sources.map(({ lines }) => lines.length).toSorted((a, b) => a - b);
    expect(lengths[Math.floor(lengths.length / 2)]).toBeLessThan(150);
  });

  test('never say any', () => {
    const typed = /(?::|<|\bas|\|)\s*any\b(?!\w)/;
    const found = files.flatMap(({ name, lines }) =>
      lines.flatMap((line, index) =>
        typed.test(line.replace(/\/\/.*$|^\s*\*.*$/, '').replace(/'[^']*'|`[^`]*`/g, ''))
          ? [`${name}:${index + 1}`]
          : [],
      ),
    );
    expect(found).toEqual([]);
  });

  test('export by name', () => {
    const found = sources.filter(({ lines }) =>
      lines.some((line) => line.startsWith('export default')),
    );
    expect(found.map(({ name }) => name)).toEqual([]);
  });

  test('hold more test than source', () => {
    const tests = files.filter(({ name }) => isTest(name));
    console.info(`${total(sources)} lines of source, ${total(tests)} lines of test`);
    expect(total(tests)).toBeGreaterThan(total(sources));
  });
});
