import { readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { compileExamples, ReadmeExamples } from '../support/readme-examples.ts';

const root = new URL('../../', import.meta.url);
const guides = readdirSync(new URL('docs/guides', root)).map((name) => `docs/guides/${name}`);
const documents = ['packages/sdk/README.md', 'packages/agents/README.md', ...guides]
  .map((path) => new ReadmeExamples(path))
  // `test/guides/programs.test.ts` compiles and runs the guides that have files of a project.
  .filter(({ all, text }) => all.length > 0 && !/^```ts\n\/\/ \S+\.ts$/m.test(text));

test('a program attaches to Relay with at most 20 lines', () => {
  const sessions = documents.find(({ path }) => path === 'docs/guides/sessions.md');
  const program = sessions?.all.find(({ title }) => title === 'Attach your program');
  expect(sessions?.faults).toEqual([]);
  expect(program?.code.trimEnd().split('\n').length).toBeLessThanOrEqual(20);
});

test('the examples of the documentation compile in a strict program', () => {
  expect(documents.map(({ path }) => path)).toEqual(
    expect.arrayContaining([
      'docs/guides/sessions.md',
      'packages/agents/README.md',
      'packages/sdk/README.md',
    ]),
  );
  expect(compileExamples(documents)).toBe('');
}, 60_000);
