/** The code of the guides compiles, and each `relay.config.ts` of them loads. */
import { readFileSync } from 'node:fs';
import { afterAll, describe, expect, test } from 'vitest';
import { loadConfigFile } from '../../packages/server/src/config/config-file.ts';
import { compileExamples } from '../support/readme-examples.ts';
import { documents, type Document, readDocument } from './documents.ts';
import { Reader } from './reader.ts';

/** Not programs of their own, by what they contain. */
const fragments = [
  // A field of a tool.
  /^execute: async/,
  // Files of a project that import each other; programs.test.ts runs them.
  /from '\.\//,
  // A package that Relay does not use; governance-guide.test.ts signs and verifies.
  /from 'standardwebhooks'/,
];

const imports = `import { acp, defineAgent, defineConfig, defineTool, pty, z } from 'relay-kit';
`;

interface Program {
  readonly path: string;
  readonly title: string;
  readonly code: string;
  readonly output: string;
}

/** A block without imports continues the first one of its document. */
function programsOf({ path, blocks }: Document): Program[] {
  const code = blocks.filter(({ language }) => language === 'ts').map((each) => each.code);
  const first = code.find((each) => each.includes('defineConfig') && each.includes('import '));
  const begun = first?.replace(/^export default .*/ms, '') ?? imports;
  return code
    .filter((each) => !fragments.some((fragment) => fragment.test(each)))
    .map((each, index) => ({
      path,
      title: `${path}, block ${index + 1}`,
      code: /^import /m.test(each) ? each : `${begun}${each}`,
      output: '',
    }));
}

const programs = [...documents, readDocument('docs/reference/config.md')].flatMap(programsOf);

test('every program compiles', () => {
  expect(programs.length).toBeGreaterThan(15);
  const paths = [...new Set(programs.map(({ path }) => path))];
  // One that only shows how to define something does not use it.
  const all = (path: string) =>
    programs
      .filter((each) => each.path === path)
      .map((each) => ({ ...each, code: `${each.code}\nexport {};\n` }));
  expect(
    compileExamples(
      paths.map((path) => ({ path, all: all(path) })),
      lenient,
    ),
  ).toBe('');
}, 180_000);

test('every program imports only what a project has', () => {
  const blocks = documents.flatMap(({ path, blocks: all }) =>
    all.filter(({ language }) => language === 'ts').map(({ code }) => ({ path, code })),
  );
  const foreign = blocks.flatMap(({ path, code }) =>
    [...code.matchAll(/^(?:import|} from) .*'(.+)';$/gm)]
      .map(([, name = '']) => `${path}: ${name}`)
      .filter((line) => !/: (relay-kit(\/sdk|\/library)?|node:.+|\..+)$/.test(line)),
  );
  // Of a receiver of webhooks, which the guide says.
  expect(foreign).toEqual(['docs/guides/governance.md: standardwebhooks']);
});

const lenient = { noUnusedLocals: false, noUnusedParameters: false };

describe('the configuration in', () => {
  const reader = new Reader();
  afterAll(() => reader.close());

  test.each(programs.filter(({ code }) => code.includes('export default defineConfig')))(
    '$title loads',
    async ({ code }) => {
      const name = `${Math.random().toString(36).slice(2)}.config.ts`;
      // A header that ends in "undefined" is refused.
      reader.write(name, code.replaceAll("process.env['SEARCH_TOKEN']", "'token'"));
      const loaded = await loadConfigFile({ RELAY_CONFIG: name }, reader.folder);
      expect(Object.keys(loaded).length).toBeGreaterThan(0);
    },
  );
});

test('the example of the reference is the file that it is made from', () => {
  const example = readFileSync(
    new URL('../../examples/config/relay.config.ts', import.meta.url),
    'utf8',
  );
  expect(readDocument('docs/reference/config.md').blocks[0]?.code).toBe(example);
});
