import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

/** In a process of its own: vitest loads modules in its own way, with other errors. */
function start(files: Readonly<Record<string, string>>): { message: string; excerpt: string } {
  const dir = mkdtempSync(join(tmpdir(), 'relay-load-error-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(dir, name), text);
  const env = { ...process.env, RELAY_DATA_DIR: join(dir, 'data'), RELAY_PORT: '0' };
  const { status, stderr } = spawnSync(process.execPath, [main], {
    cwd: dir,
    env: { ...env, RELAY_CONFIG: Object.keys(files)[0] },
    encoding: 'utf8',
  });
  expect(status).toBe(1);
  const [message = '', ...excerpt] = stderr.replaceAll(`${dir}/`, '').split('\n');
  expect(stderr).not.toContain(dirname(main));
  return { message, excerpt: excerpt.join('\n').replaceAll(/^\n|\s+$/g, '') };
}

it.each([
  [
    'a syntax error in TypeScript',
    { 'relay.config.ts': "export default {\n  agents: [{ name: 'a'\n    model: 'b' }],\n};\n" },
    "relay.config.ts:3:5: SyntaxError: Expected ',', got 'ident'",
    "  3 |     model: 'b' }],\n          ^",
  ],
  [
    'a syntax error in JavaScript',
    { 'relay.config.mjs': 'export default {\n  agents: [ }\n};\n' },
    "relay.config.mjs:2:13: SyntaxError: Unexpected token '}'",
    '  2 |   agents: [ }\n                  ^',
  ],
  [
    'a missing package',
    { 'relay.config.ts': "\nimport x from 'not-there/x';\nexport default x;\n" },
    "relay.config.ts:2:16: Cannot find package 'not-there' imported from relay.config.ts",
    "  2 | import x from 'not-there/x';\n                     ^",
  ],
  [
    'a missing export',
    { 'relay.config.ts': "import { no } from './lib.ts';\nexport default {};\n", 'lib.ts': '' },
    "relay.config.ts:1:10: SyntaxError: The requested module './lib.ts' does not provide an export named 'no'",
    "  1 | import { no } from './lib.ts';\n               ^",
  ],
  [
    'an error in an imported file',
    { 'relay.config.ts': "import './lib.ts';\nexport default {};\n", 'lib.ts': '\n\tno();\n' },
    'lib.ts:2:2: ReferenceError: no is not defined',
    '  2 | \tno();\n      \t^',
  ],
  [
    'an error that Relay throws',
    {
      'relay.config.ts': `import { defineHarness } from ${JSON.stringify(fileURLToPath(new URL('../../src/index.ts', import.meta.url)))};\nexport default { harnesses: [defineHarness(null as never)] };\n`,
    },
    expect.stringMatching(/^relay\.config\.ts:2:30: TypeError: /),
    expect.stringContaining('  2 | export default'),
  ],
])('the start shows the position of %s', (_name, files, message, excerpt) => {
  expect(start(files)).toEqual({ message, excerpt });
});

it('a value that is no error is shown as it is', () => {
  const { message, excerpt } = start({ 'relay.config.ts': "throw 'Not today';\n" });
  expect([message, excerpt]).toEqual(['relay.config.ts could not be loaded: Not today', '']);
});
