/** Programs in terminals, without a server. */
import { execFileSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { HarnessContext, HarnessMessage, HarnessSession, Receipt } from '@relay/core';
import { bubblewrapProblem } from '@relay/processes';
import type { AgentSessionEvent } from '@relay/protocol';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { requires, requiresLinux } from '../../../../test/support/requires.ts';
import { pty, type PtyOptions } from '../../src/index.ts';
import { Screen } from '../../src/pty/screen.ts';

const fullScreen = fileURLToPath(new URL('full-screen.mjs', import.meta.url));
const deadline = { timeout: 20_000, interval: 20 };

interface Started {
  readonly session: HarnessSession;
  readonly events: readonly AgentSessionEvent[];
  readonly workspace: string;
  readonly receipts: readonly (Receipt & { readonly deliveryId: string })[];
  readonly asked: readonly unknown[];
  readonly stop: AbortController;
  readonly context: HarnessContext;
}

const running: Started[] = [];
const sandbox = { network: true, memoryBytes: 1024 ** 3, processes: 1_024 };
const sandboxProblem = await bubblewrapProblem();
let isSandboxed = false;

afterEach(async () => {
  for (const { session, workspace } of running.splice(0)) {
    await session.release?.();
    rmSync(workspace, { recursive: true, force: true });
  }
});

async function start(
  options: Partial<PtyOptions> & Pick<PtyOptions, 'command'>,
  over: Partial<HarnessContext> & {
    /** Resolves when an event is stored. */
    readonly store?: (event: AgentSessionEvent) => Promise<void>;
  } = {},
): Promise<Started> {
  const workspace = realpathSync(mkdtempSync(join(tmpdir(), 'relay-pty-')));
  const events: AgentSessionEvent[] = [];
  const receipts: (Receipt & { deliveryId: string })[] = [];
  const asked: unknown[] = [];
  const stop = new AbortController();
  const unexpected = () => Promise.reject(new Error('Unexpected'));
  const { store = () => Promise.resolve(), ...given } = over;
  const context: HarnessContext = {
    signal: stop.signal,
    receipt: (deliveryId, receipt) => {
      receipts.push({ deliveryId, ...receipt });
      return Promise.resolve();
    },
    requestPermission: (request) => {
      asked.push(request);
      return Promise.resolve({ allowed: true, input: request.input });
    },
    send: unexpected,
    reply: unexpected,
    ask: unexpected,
    reportBreach: unexpected,
    saveState: unexpected,
    ...given,
  };
  const session = await pty({ name: 'shell', ...options }).create(
    {
      sessionId: 'one',
      handle: 'one',
      labels: {},
      process: {
        tenantId: 'one',
        isDefaultTenant: false,
        workspace,
        home: workspace,
        hidden: () => [],
        ...(isSandboxed && sandboxProblem === undefined ? { sandbox } : {}),
        mcp: { url: '', token: '' },
        credential: () => Promise.resolve(undefined),
      },
    },
    context,
  );
  session.onEvent((event) => {
    events.push(event);
    return store(event);
  });
  const started = { session, events, workspace, receipts, asked, stop, context };
  running.push(started);
  return started;
}

function outputOf({ events }: Started): string {
  return events.map((event) => (event.type === 'terminal.output' ? event.text : '')).join('');
}

function screenOf({ events }: Started): string {
  const screen = events.findLast((event) => event.type === 'terminal.screen');
  return screen?.type === 'terminal.screen' ? screen.text : '';
}

function statusesOf({ events }: Started): string[] {
  return events.flatMap((event) => (event.type === 'status.changed' ? event.status : []));
}

async function type({ session }: Started, text: string): Promise<void> {
  await session.input?.({ text });
}

function message(text: string, isFromApprover: boolean): HarnessMessage {
  return {
    id: 'm',
    deliveryId: 'd',
    to: ['@one'],
    text,
    attachments: [],
    from: isFromApprover
      ? { type: 'key', id: 'k', name: 'ada' }
      : { type: 'session', id: 's', name: 'builder' },
    mode: 'on-idle',
    redelivered: false,
    isFromApprover,
  } as unknown as HarnessMessage;
}

const bash = ['bash', '--norc', '--noprofile'] as const;

describe.each(['', ' in a sandbox'])('a program in a terminal%s', (where) => {
  const linux = where === '' ? requiresLinux() : requires('sandbox', sandboxProblem);

  beforeAll(() => {
    isSandboxed = where !== '';
  });
  afterAll(() => {
    isSandboxed = false;
  });

  it(
    'shows what is typed and what it outputs, and is idle when it reads the next command',
    linux,
    async () => {
      const started = await start({ command: bash });
      await vi.waitFor(() => expect(screenOf(started)).toMatch(/[$#]$/), deadline);
      await vi.waitFor(() => expect(statusesOf(started)).toEqual(['idle']), deadline);

      await type(started, 'echo $((40+2)) "$TERM" $COLUMNS\r');

      await vi.waitFor(
        () => expect(screenOf(started)).toContain('\n42 xterm-256color 120\n'),
        deadline,
      );
      await vi.waitFor(
        () => expect(statusesOf(started)).toEqual(['idle', 'active', 'idle']),
        deadline,
      );
      expect(outputOf(started)).toContain('42 xterm-256color 120\r\n');
      expect(started.events.every(({ fidelity }) => fidelity === 'inferred')).toBe(true);
    },
  );

  it('is active while a command has its terminal, although nothing is output', linux, async () => {
    const started = await start({ command: bash });
    await vi.waitFor(() => expect(statusesOf(started)).toEqual(['idle']), deadline);
    await type(started, 'sleep 3; echo do""ne\r');
    await vi.waitFor(() => expect(outputOf(started)).toMatch(/[\r\n]done\r\n/), deadline);
    // It would be active again with its output if it had been idle in between.
    expect(statusesOf(started).filter((status) => status === 'active')).toHaveLength(1);
    // What it prints shows that it is in the foreground, where an interrupt reaches it.
    await type(started, `sh -c 'echo be""gun; exec sleep 1000'\r`);
    await vi.waitFor(() => expect(outputOf(started)).toMatch(/[\r\n]begun\r\n/), deadline);
    await started.session.cancel?.();
    await vi.waitFor(() => expect(statusesOf(started).at(-1)).toBe('idle'), deadline);
  });
});

/** Processes whose command line contains the text. */
function processesWith(text: string): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').includes(text);
      } catch {
        return false;
      }
    });
}

describe('a full-screen program in a terminal', () => {
  it('is driven by keys, and its screen is reported without escape sequences', async () => {
    const started = await start({ command: [process.execPath, fullScreen], cols: 60, rows: 10 });
    await vi.waitFor(
      () => expect(screenOf(started)).toBe('\n  size 60x10\n\n  key none'),
      deadline,
    );
    await type(started, 'x');
    await vi.waitFor(() => expect(screenOf(started)).toContain('key "x"'), deadline);
    await started.session.input?.({ resize: { cols: 90, rows: 20 } });
    await vi.waitFor(() => expect(screenOf(started)).toContain('size 90x20'), deadline);
    expect(started.events.findLast(({ type }) => type === 'terminal.screen')).toMatchObject({
      cols: 90,
      rows: 20,
    });
  });

  it('is painted as a whole after a resize, so that a reader can begin there', async () => {
    const started = await start({ command: [process.execPath, fullScreen], cols: 60, rows: 10 });
    await vi.waitFor(() => expect(screenOf(started)).toContain('key none'), deadline);

    await started.session.input?.({ resize: { cols: 60, rows: 10 } });

    const output = outputOf(started);
    const painted = output.slice(output.lastIndexOf('\x1bc'));
    const screen = new Screen({ cols: 60, rows: 10 }, () => undefined);
    await screen.write(painted);
    expect(screen.text).toBe('\n  size 60x10\n\n  key none');
    // In the alternate screen, in bold red, with a hidden cursor.
    expect(painted).toContain('\x1b[?1049h');
    expect(painted).toContain('\x1b[0;1;31msize 60x10');
    expect(painted).toContain('\x1b[?25l');
  });

  it('ends its session when it exits, with the exit code in an event', async () => {
    const started = await start({ command: [process.execPath, fullScreen] });
    await vi.waitFor(() => expect(screenOf(started)).toContain('key none'), deadline);
    await type(started, 'q');
    const reason = 'The program exited with code 3';
    await vi.waitFor(() => {
      expect(started.events.slice(-2)).toMatchObject([
        { type: 'command.failed', exitCode: 3, error: reason },
        { type: 'status.changed', status: 'released', reason },
      ]);
    }, deadline);
    await expect(type(started, 'x')).rejects.toThrow('The program has exited');
  });

  it('can be vim', requires('vim', problemOf('vim')), async () => {
    const started = await start({ command: ['vim', '-u', 'NONE', 'note.txt'] });
    await vi.waitFor(() => expect(screenOf(started)).toContain('\n~\n'), deadline);
    await type(started, 'ihello from relay\x1b:wq\r');
    await vi.waitFor(() => {
      expect(started.events.at(-1)).toMatchObject({ status: 'released' });
    }, deadline);
    expect(readFileSync(join(started.workspace, 'note.txt'), 'utf8')).toBe('hello from relay\n');
  });
});

function problemOf(program: string): string | undefined {
  try {
    execFileSync('which', [program]);
    return undefined;
  } catch {
    return `${program} is not installed`;
  }
}

describe('a message to a program in a terminal', () => {
  it('is typed and entered if its sender may type, and is delivered, not consumed', async () => {
    const started = await start({ command: bash });
    const receipt = await started.session.receiveMessage(
      message('echo $((6*7))', true),
      started.context,
    );
    expect(receipt).toEqual({ status: 'delivered' });
    await vi.waitFor(() => expect(outputOf(started)).toMatch(/[\r\n]42\r\n/), deadline);
    expect(started.asked).toEqual([]);
  });

  it('of another session is typed once when it is permitted, as the approver changed it', async () => {
    const answer = Promise.withResolvers<{ allowed: true; input: unknown }>();
    const asked: unknown[] = [];
    const started = await start(
      { command: bash },
      {
        requestPermission: (request) => {
          asked.push(request);
          return answer.promise;
        },
      },
    );
    const send = () =>
      started.session.receiveMessage(message('echo $((6*7))', false), started.context);
    expect(await send()).toEqual({ status: 'held' });
    expect(asked).toEqual([
      { tool: 'shell.type', input: { text: 'echo $((6*7))' }, shown: { from: '@builder' } },
    ]);
    expect(started.receipts).toEqual([]);

    answer.resolve({ allowed: true, input: { text: 'echo $((7*7))' } });

    await vi.waitFor(
      () => expect(started.receipts).toEqual([{ deliveryId: 'd', status: 'delivered' }]),
      deadline,
    );
    await vi.waitFor(() => expect(outputOf(started)).toMatch(/[\r\n]49\r\n/), deadline);
    expect(outputOf(started)).not.toContain('6*7');
  });

  it('of another session is not typed when it is denied', async () => {
    const started = await start(
      { command: bash },
      { requestPermission: () => Promise.resolve({ allowed: false, reason: 'No.', by: 'person' }) },
    );
    await started.session.receiveMessage(message('echo $((6*7))', false), started.context);
    await vi.waitFor(
      () => expect(started.receipts).toMatchObject([{ status: 'failed', reason: 'No.' }]),
      deadline,
    );
    await type(started, 'echo end\r');
    await vi.waitFor(() => expect(outputOf(started)).toMatch(/[\r\n]end\r\n/), deadline);
    expect(outputOf(started)).not.toContain('6*7');
  });

  it.each(['\x03', '\x1b[A', '\x04', '\x9b1m', 'a\rb', '\x7f'])(
    'with the control characters %j is refused',
    async (text) => {
      const started = await start({ command: ['cat'] });
      const receipt = await started.session.receiveMessage(message(text, true), started.context);
      expect(receipt).toMatchObject({
        status: 'failed',
        reason: expect.stringContaining('control character U+'),
      });
    },
  );

  it('is pasted into a program that accepts that, so that its lines are not entered one by one', async () => {
    const program =
      "process.stdout.write('\\x1b[?2004h'); process.stdin.setRawMode(true);" +
      "process.stdin.on('data', (keys) => console.log(JSON.stringify(String(keys))))";
    const started = await start({ command: [process.execPath, '-e', program] });
    await vi.waitFor(() => expect(outputOf(started)).toContain('\x1b[?2004h'), deadline);
    await started.session.receiveMessage(message('one\r\ntwo', true), started.context);
    await vi.waitFor(
      () => expect(outputOf(started)).toContain('\\u001b[200~one\\ntwo\\u001b[201~\\r'),
      deadline,
    );
  });
});

describe.each(['', ' in a sandbox'])('the processes of a terminal%s', (where) => {
  const linux = where === '' ? requiresLinux() : requires('sandbox', sandboxProblem);

  beforeAll(() => {
    isSandboxed = where !== '';
  });
  afterAll(() => {
    isSandboxed = false;
  });

  /** A command that no other test has. */
  const unique = () => `sleep ${randomInt(1e8, 1e9)}`;

  it.each([
    ['ignores every signal that it can', "trap '' HUP TERM INT; SLEEP & while :; do wait; done"],
    ['starts others in sessions of their own', 'setsid SLEEP & setsid -f SLEEP; SLEEP'],
  ])('end with the session of a program that %s', linux, async (_what, script) => {
    const sleep = unique();
    const started = await start({ command: ['bash', '-c', script.replaceAll('SLEEP', sleep)] });
    await vi.waitFor(() => expect(processesWith(sleep).length).toBeGreaterThan(1), deadline);
    await started.session.release?.();
    expect(processesWith(sleep)).toEqual([]);
    expect(statusesOf(started)).not.toContain('released');
  });

  it('end when the server does, without it', linux, async () => {
    const sleep = unique();
    const script = `trap '' HUP TERM; setsid ${sleep} & ${sleep}`;
    const started = await start({ command: ['bash', '-c', script] });
    await vi.waitFor(() => expect(processesWith(sleep).length).toBeGreaterThan(1), deadline);
    started.stop.abort();
    await vi.waitFor(() => expect(processesWith(sleep)).toEqual([]), deadline);
  });

  it('have a clean environment and their own home', linux, async () => {
    vi.stubEnv('SECRET_OF_THE_SERVER', 'secret');
    const started = await start({ command: ['bash', '-c', 'env'], env: { OWN: 'given' } });
    vi.unstubAllEnvs();
    await vi.waitFor(() => expect(statusesOf(started)).toContain('released'), deadline);
    const output = outputOf(started);
    expect(output).toContain('OWN=given');
    expect(output).toContain(`HOME=${started.workspace}`);
    expect(output).not.toContain('SECRET_OF_THE_SERVER');
  });

  it('have no descriptors but those of their own terminal', linux, async () => {
    await start({ command: ['cat'] });
    const started = await start({ command: ['bash', '-c', 'ls -l /proc/self/fd'] });
    await vi.waitFor(() => expect(statusesOf(started)).toContain('released'), deadline);
    expect(outputOf(started)).not.toContain('ptmx');
    expect(execFileSync('ls', ['-l', '/proc/self/fd'], { encoding: 'utf8' })).not.toContain('ptmx');
  });

  it('that a signal ends end the session, too', linux, async () => {
    const started = await start({ command: ['bash', '-c', 'kill -9 $$'] });
    await vi.waitFor(
      () => expect(started.events.at(-1)).toMatchObject({ status: 'released' }),
      deadline,
    );
    expect(started.events.map(({ type }) => type)).toContain('command.failed');
  });

  it('are not started if there is no such program', async () => {
    await expect(start({ command: ['no-such-program'] })).rejects.toThrow(
      'There is no program no-such-program on the PATH',
    );
  });

  it('are not defined with an unknown option', () => {
    const options = { name: 'shell', command: ['bash'] as const, columns: 80 };
    expect(() => pty(options)).toThrow('pty: columns: Unknown option');
  });
});

describe('a program that outputs without end', () => {
  it('is not read while its output is not stored', async () => {
    const started = await start(
      { command: ['yes'] },
      { store: () => new Promise(() => undefined) },
    );
    await vi.waitFor(() => expect(outputOf(started).length).toBeGreaterThan(1_000), deadline);
    let before = -1;
    await vi.waitFor(
      () => {
        const { length } = outputOf(started);
        const isStill = length === before;
        before = length;
        expect(isStill).toBe(true);
      },
      { ...deadline, interval: 500 },
    );
    expect(before).toBeLessThan(256 * 1024);
  });

  it.each([
    ['lines', 'yes'],
    ['100 MB without a newline', "head -c 100000000 /dev/zero | tr '\\0' x"],
  ])(
    'is slowed down, cut into small events, and can be interrupted: %s',
    async (_what, command) => {
      const started = await start({ command: bash });
      await type(started, `${command}\r`);
      // More than what may come at once.
      await vi.waitFor(() => expect(outputOf(started).length).toBeGreaterThan(1_200_000), deadline);
      await started.session.cancel?.();
      await type(started, 'echo $((6*7))end\r');
      await vi.waitFor(() => expect(screenOf(started)).toContain('42end'), deadline);
      const lengths = started.events.map((event) =>
        event.type === 'terminal.output' ? event.text.length : 0,
      );
      expect(Math.max(...lengths)).toBeLessThanOrEqual(4_096);
      expect(outputOf(started).length).toBeLessThan(20_000_000);
      // A reader of what is kept, which is the last MB, finds a whole screen in it.
      expect(outputOf(started).slice(-1024 * 1024)).toContain('\x1bc');
    },
  );

  it('gets input while it does not read it, up to a limit', async () => {
    const started = await start({
      command: ['bash', '-c', 'stty raw -echo; echo ready; sleep 1000'],
    });
    await vi.waitFor(() => expect(outputOf(started)).toContain('ready'), deadline);
    const typed = Array.from({ length: 8 }, () => type(started, 'x'.repeat(60_000)));
    const results = await Promise.allSettled(typed);
    const reasons = results.flatMap((result) =>
      result.status === 'rejected' ? String(result.reason) : [],
    );
    expect(reasons.length).toBeGreaterThan(0);
    expect(new Set(reasons.map((reason) => reason.slice(0, 42)))).toEqual(
      new Set(['Error: The program does not read its input']),
    );
  });
});
