/** The examples of the library's README are short, and print the output that it shows. */
import { describe, expect, test } from 'vitest';
import { ReadmeExamples, runExample } from '../support/readme-examples.ts';

const readme = new ReadmeExamples('packages/agents/README.md');
const { OPENAI_API_KEY: _, ...env } = process.env;

describe('the README', () => {
  test('has six short examples, each with its output', () => {
    expect(readme.faults).toEqual([]);
    expect(readme.all).toHaveLength(6);
    for (const { code } of readme.all) expect(code).toContain("from '@relay/agents'");
  });

  test.each(readme.all)('$title', async ({ code, output }) => {
    const ran = await runExample(code, env);
    expect(ran).toEqual({ exit: 0, output: output.trimEnd(), errors: '' });
  });
});
