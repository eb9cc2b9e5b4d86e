/** Every command of the README and the guides runs, in its order, against a server. */
import { spawnSync } from 'node:child_process';
import { afterAll, describe, expect, test } from 'vitest';
import { ReadmeExamples, runExample } from '../support/readme-examples.ts';
import { requires } from '../support/requires.ts';
import { documents, type Document } from './documents.ts';
import { type Plan, planned, planOf, type Step } from './plans.ts';
import { Reader } from './reader.ts';

const tools = ['bash', 'curl', 'jq', 'openssl'];
const missing = tools.filter((tool) => spawnSync('which', [tool]).status !== 0);
const withCommands = documents.filter(({ commands }) => commands.length > 0);
const unused = new Map<string, Set<string>>();

function stepOf({ steps = {} }: Plan, command: string): [string, Step] | undefined {
  return Object.entries(steps).findLast(([part]) => command.includes(part));
}

function configOf({ blocks }: Document, { config }: Plan): string | undefined {
  if (config === undefined || typeof config === 'string') return config;
  const found = blocks.find(({ language, code }) => language === 'ts' && config.test(code));
  if (found === undefined) throw new Error(`No block in ts matches ${config}`);
  return found.code;
}

async function problemOf(
  reader: Reader,
  command: string,
  { before, after, instead, exit = 0, until, prints, ...options }: Step,
): Promise<string | undefined> {
  try {
    await before?.(reader);
    const text = instead?.(command) ?? command;
    const ran = await reader.run(text, { ...options, ...(until === undefined ? {} : { until }) });
    const hasEnded = until === undefined ? ran.exit === exit : ran.isInterrupted;
    if (!hasEnded || prints?.test(ran.output) === false) {
      return `exit code ${ran.exit}:\n${ran.output}`;
    }
    await after?.(reader, ran.output);
    return undefined;
  } catch (error) {
    return String(error);
  }
}

async function follow(document: Document): Promise<string[]> {
  const plan = planOf(document.path);
  const left = new Set(Object.keys(plan.steps ?? {}));
  unused.set(document.path, left);
  const reader = new Reader(plan.settings);
  const problems: string[] = [];
  try {
    const config = configOf(document, plan);
    if (config !== undefined) reader.write('relay.config.ts', config);
    await reader.open();
    await plan.prepare?.(reader);
    for (const command of document.commands) {
      const [part, step] = stepOf(plan, command) ?? ['', {}];
      left.delete(part);
      if (step.skip !== undefined) continue;
      const problem = await problemOf(reader, command, step);
      if (problem !== undefined) problems.push(`${command}\n${problem}`);
    }
    for (const example of new ReadmeExamples(document.path).all) {
      const here = example.code.replaceAll('http://127.0.0.1:4000', reader.url);
      const env = { ...process.env, RELAY_API_KEY: reader.value('RELAY_API_KEY') };
      const ran = await runExample(here, env);
      if (ran.output === example.output.trimEnd() && ran.exit === 0) continue;
      problems.push(`The program of "${example.title}" printed:\n${ran.output}${ran.errors}`);
    }
  } finally {
    await reader.close();
  }
  return problems;
}

describe('a reader of', requires('guides', missing[0] && `${missing[0]} is not installed`), () => {
  test.concurrent.each(withCommands.filter(({ path }) => planOf(path).coveredBy === undefined))(
    '$path can run every command',
    async (document) => {
      expect((await follow(document)).join('\n\n')).toBe('');
    },
    180_000,
  );

  afterAll(() => {
    // A plan for what no guide says hides that the guide has changed.
    for (const [path, left] of unused) expect([path, ...left]).toEqual([path]);
  });
});

test('every plan belongs to a document', () => {
  const paths = withCommands.map(({ path }) => path);
  expect(planned.filter((path) => !paths.includes(path))).toEqual([]);
});

test('commands are in blocks that run', () => {
  const hidden = documents.flatMap(({ path, blocks }) =>
    blocks
      .filter(({ language }) => language === 'text' || language === '')
      .filter(({ code }) => /^(npm|npx|relay|curl) /m.test(code))
      .map(({ code }) => `${path}: ${code}`),
  );
  expect(hidden).toEqual([]);
});
