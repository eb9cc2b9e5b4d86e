/** `relay sessions attach` in a real terminal, and what is left of terminals when the server is killed. */
import { randomInt } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { pty, type HarnessContext, type HarnessSession } from '@relay/harnesses';
import { createClient, type RelayClient } from '@relay/sdk';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { relay, relayBin } from '../support/cli.ts';
import { requiresLinux } from '../support/requires.ts';
import { TestServer } from '../support/server.ts';

const config = fileURLToPath(new URL('../support/configs/terminal.config.ts', import.meta.url));
const fullScreen = fileURLToPath(
  new URL('../../packages/harnesses/test/pty/full-screen.mjs', import.meta.url),
);
const deadline = { timeout: 30_000, interval: 50 };
const detach = '\x1d';

describe('relay sessions attach', requiresLinux(), () => {
  const workspace = realpathSync(mkdtempSync(join(tmpdir(), 'relay-attach-')));
  const server = new TestServer({
    RELAY_CONFIG: config,
    RELAY_WORKSPACE: workspace,
    RELAY_SANDBOX: 'off',
  });
  let client: RelayClient;
  const person: Person[] = [];

  beforeAll(async () => {
    await server.start();
    client = createClient({ baseUrl: server.url, apiKey: server.apiKey });
  });

  afterEach(async () => {
    for (const each of person.splice(0)) await each.leave();
  });

  afterAll(async () => {
    await server.dispose();
    rmSync(workspace, { recursive: true, force: true });
  });

  async function started(): Promise<{ id: string; handle: string }> {
    const handle = `shell-${randomInt(1e9)}`;
    const { id } = await client.sessions.create({ harness: 'shell', handle });
    await client.sessions.stream(id).waitFor({ type: 'status.idle' });
    return { id, handle };
  }

  /** A person with a shell in a terminal, who attaches to a session. */
  async function attached(handle: string): Promise<Person> {
    const env = { RELAY_URL: server.url, RELAY_API_KEY: server.apiKey };
    const someone = await Person.at(workspace, env);
    person.push(someone);
    await someone.type(`${process.execPath} ${relayBin} sessions attach ${handle}; echo code $?\r`);
    return someone;
  }

  it('shows the screen as it is, sends keys, and gives the terminal back', async () => {
    const { id, handle } = await started();
    await client.sessions.input(id, { text: 'echo be""fore\r' });
    const someone = await attached(handle);
    await someone.sees('before');
    // The screen of the person's own shell is hidden.
    expect(someone.screen.replaceAll('\n', '')).not.toContain('sessions attach');

    await someone.type('stty size; echo $((6*7))x\r');
    await someone.sees('42x');
    expect(someone.screen).toContain('20 70');
    await someone.resize({ cols: 90, rows: 25 });
    await someone.type('stty size\r');
    await someone.sees('25 90');

    await someone.type(detach);
    await someone.sees('code 0');
    expect(someone.screen).toContain(`Detached from @${handle}.`);
    expect(someone.screen.replaceAll('\n', '')).toContain('sessions attach');
    expect(someone.screen).not.toContain('42x');
    await someone.type('stty -a\r');
    await someone.sees(' icanon');
    expect((await client.sessions.get(id)).status).not.toBe('released');
  });

  it('drives a full-screen program, and shows what was there before it when it ends', async () => {
    const { handle } = await started();
    const someone = await attached(handle);
    await someone.type('echo un""der\r');
    await someone.sees('under');
    await someone.type(`${process.execPath} ${fullScreen}\r`);
    await someone.sees('size 70x20');
    expect(someone.screen).not.toContain('under');
    await someone.type('\x1b[A');
    await someone.sees('key "\\u001b[A"');
    await someone.resize({ cols: 80, rows: 22 });
    await someone.sees('size 80x22');
    await someone.type('q');
    await someone.sees('under');
    expect(someone.screen).not.toContain('size 80x22');
  });

  it('says that the program has exited', async () => {
    const { handle } = await started();
    const someone = await attached(handle);
    await someone.sees('bash');
    await someone.type('exit 3\r');
    await someone.sees('code 0');
    expect(someone.screen).toContain(`@${handle} has ended: The program exited with code 3`);
  });

  it('requires a terminal, and a session with one', async () => {
    const { handle } = await started();
    const env = { RELAY_URL: server.url, RELAY_API_KEY: server.apiKey };
    const { code, err } = await relay(['sessions', 'attach', handle], { env });
    expect([code, err]).toEqual([2, expect.stringContaining('attach requires a terminal')]);
    const typed = await relay(['sessions', 'type', handle, 'echo', '$((6*7))x'], { env });
    expect([typed.code, typed.out]).toEqual([0, `Typed it into @${handle}.\n`]);
    await client.sessions.create({ harness: 'human', handle: 'ada' });
    const someone = await attached('ada');
    await someone.sees('code 5');
    expect(someone.screen).toContain('has no terminal that can be typed into');
  });

  it('connects again when the server restarts, and says that the terminal is gone', async () => {
    const { id, handle } = await started();
    const someone = await attached(handle);
    await someone.sees('bash');
    const sleep = `sleep ${randomInt(1e8, 1e9)}`;
    await someone.type(`trap '' HUP TERM; setsid ${sleep} & setsid -f ${sleep}; ${sleep}\r`);
    await vi.waitFor(() => expect(processesWith(sleep).length).toBeGreaterThan(2), deadline);
    const { port } = new URL(server.url);
    await server.kill();
    // Before the server is started again.
    await vi.waitFor(() => expect(processesWith(sleep)).toEqual([]), deadline);
    await someone.sees('connecting again');
    await server.start({ RELAY_PORT: port });
    await someone.sees('code 5');
    expect(someone.screen).toContain(`@${handle} is offline`);
    await someone.type('stty -a\r');
    await someone.sees(' icanon');
    expect((await client.sessions.release(id)).status).toBe('released');
  });
});

/** Processes whose command line is this. */
function processesWith(command: string): string[] {
  return readdirSync('/proc').filter((pid) => {
    try {
      const line = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
      return line === command;
    } catch {
      return false;
    }
  });
}

class Person {
  readonly #session: HarnessSession;
  screen = '';

  constructor(session: HarnessSession) {
    this.#session = session;
    session.onEvent((event) => {
      if (event.type === 'terminal.screen') this.screen = event.text;
      return Promise.resolve();
    });
  }

  static async at(workspace: string, env: Readonly<Record<string, string>>): Promise<Person> {
    const command = ['bash', '--norc', '--noprofile'] as const;
    const harness = pty({ name: 'person', command, env, cols: 70, rows: 20 });
    const given = {
      tenantId: 'person',
      isDefaultTenant: false,
      workspace,
      home: workspace,
      hidden: () => [],
      mcp: { url: '', token: '' },
      credential: () => Promise.resolve(undefined),
    };
    const input = { sessionId: 'person', handle: 'person', labels: {}, process: given };
    const { signal } = new AbortController();
    const person = new Person(await harness.create(input, { signal } as HarnessContext));
    await person.sees('bash');
    return person;
  }

  async type(text: string): Promise<void> {
    await this.#session.input?.({ text });
  }

  async resize(resize: { cols: number; rows: number }): Promise<void> {
    await this.#session.input?.({ resize });
  }

  async sees(text: string): Promise<void> {
    await vi.waitFor(() => expect(this.screen).toContain(text), deadline);
  }

  async leave(): Promise<void> {
    await this.#session.release?.();
  }
}
