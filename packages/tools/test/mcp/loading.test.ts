import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

/** Says whether the SDK was asked for. */
const script = `
  import { registerHooks } from 'node:module';
  let asked = false;
  registerHooks({
    resolve(specifier, context, next) {
      if (specifier.startsWith('@modelcontextprotocol/')) asked = true;
      return next(specifier, context);
    },
  });
  await import(process.argv[1]);
  console.log(asked);
`;

it.each([
  ['../../src/index.ts', 'false'],
  ['../../src/mcp/index.ts', 'true'],
])('the MCP SDK is loaded only by its entry point: %s', async (entry, expected) => {
  const { href } = new URL(entry, import.meta.url);
  const run = promisify(execFile);
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script, href]);
  expect(stdout.trim()).toBe(expected);
});
