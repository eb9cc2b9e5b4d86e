/** The examples, as a reader starts them. Each asserts for itself that it did what it shows. */
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TestServer } from '../support/server.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const server = new TestServer();
beforeAll(() => server.start());
afterAll(() => server.dispose());

/** What each of them shows; the ids of calls and runs are left out. */
const shows: Readonly<Record<string, readonly RegExp[]>> = {
  'hello-run': [/^calls calculator \{ a: 23, b: 47, op: '\*' \}$/m, /^gets 1081$/m, /is 1081\.$/],
  'approve-a-tool': [/^May it\? send_note .*green/m, /^Yes\.$/m, /^May it\? .*doomed/m, /^No\.$/m],
  'function-tool': [/^asks for \{ id: 'u_001' \}$/m, /name: 'Ada'/],
  'resume-after-crash': [
    /^It waits for an approval/m,
    /^… and it is back\.$/m,
    /The note was sent\.$/,
  ],
  memory: [
    /^a later run knows: \[\s+'The dog of Ada is called Turing'/m,
    /^another namespace knows nothing of it$/m,
    /^forgotten$/m,
  ],
  'mcp-tools': [
    /^May it\? wardrobe_order/m,
    /^It asks: Which size of coat\?$/m,
    /^Ordered: coat M$/m,
  ],
  team: [
    /^shop hears buyer: use invoke_action/m,
    /^May it\? invoke_action \{"name":"order"/m,
    /^ada reads clerk: invoke_action answered: .*"output":\{"number":1\}/m,
  ],
  'embed-in-process': [/^send_note has been waiting$/m, /The note was sent\.$/],
};

/** Other folders hold what is started otherwise, and tested where that is known. */
const stories = readdirSync(`${root}/examples`).filter((name) =>
  existsSync(`${root}/examples/${name}/main.ts`),
);

async function run(story: string) {
  const child = spawn(process.execPath, ['--no-warnings', `examples/${story}/main.ts`], {
    cwd: root,
    env: { ...process.env, RELAY_URL: server.url, RELAY_API_KEY: server.apiKey },
  });
  const ran = { output: '', errors: '' };
  child.stdout.on('data', (chunk: Buffer) => (ran.output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (ran.errors += chunk.toString()));
  const code = await new Promise((resolve) => child.once('close', resolve));
  return { code, output: ran.output.trimEnd(), errors: ran.errors };
}

/** A server also kills what other servers on this machine started before they were killed, and says so. */
function isOfThisServer(line: string): boolean {
  return !line.includes('Killed orphaned processes of an earlier server');
}

describe('an example', () => {
  test('is there for every story, and every story for an example', () => {
    expect(stories.toSorted()).toEqual(Object.keys(shows).toSorted());
  });

  test.each(stories)('%s is short, says how it is started, and verifies itself', (story) => {
    const source = readFileSync(`${root}/examples/${story}/main.ts`, 'utf8');
    expect(source.trimEnd().split('\n').length).toBeLessThan(80);
    expect(source).toContain(`npx node examples/${story}/main.ts`);
    expect(source.match(/assert\.\w+\(/g)?.length).toBeGreaterThanOrEqual(1);
  });

  test.each(stories)(
    '%s does what it shows',
    async (story) => {
      const { code, output, errors } = await run(story);
      expect(errors.split('\n').filter(isOfThisServer)).toEqual(['']);
      expect(code).toBe(0);
      for (const line of shows[story] ?? []) expect(output).toMatch(line);
    },
    60_000,
  );
});
