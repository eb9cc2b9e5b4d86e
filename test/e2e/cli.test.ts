/** The CLI in a real terminal. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { relayBin } from '../support/cli.ts';
import { requires } from '../support/requires.ts';
import { TestServer } from '../support/server.ts';
import { TmuxTerminal, tmuxProblem } from '../support/tmux.ts';

// Each test polls for the expected output; a busy machine can be slow.
vi.setConfig({ testTimeout: 120_000 });

const server = new TestServer();
const elsewhere = mkdtempSync(join(tmpdir(), 'relay-cli-'));

beforeAll(() => server.start());
afterAll(async () => {
  await server.dispose();
  rmSync(elsewhere, { recursive: true, force: true });
});

interface Screen {
  /** Text before the command, such as a variable. */
  readonly before?: string;
  readonly columns?: number;
}

/** A shell that runs `relay …`. */
function terminal(args: string, key: 'key' | 'keyless' = 'key', options: Screen = {}) {
  const { before = '', columns = 120 } = options;
  const env = {
    PATH: process.env['PATH'] ?? '',
    RELAY_URL: server.url,
    // Arguments are edited on a line, whatever the editor of who runs the tests.
    EDITOR: '',
    VISUAL: '',
    // Hints name the command as a person starts it, not as npm that runs the tests.
    npm_lifecycle_event: '',
    ...(key === 'key' ? { RELAY_API_KEY: server.apiKey } : {}),
  };
  const command = `${before}'${process.execPath}' '${relayBin}' ${args}; echo "ended with $?"`;
  const shell = new TmuxTerminal({ command, cwd: elsewhere, env, columns });
  onTestFinished(() => shell.close());
  return {
    shell,
    shows: (text: string) =>
      expect.poll(() => shell.screen, { timeout: 30_000, interval: 50 }).toContain(text),
  };
}

const notesOf = (word: string) => server.notes.filter(({ text }) => text.includes(word));

describe('the CLI in a terminal', requires('terminal', tmuxProblem()), () => {
  test('a chat: an answer, a call that is allowed once, one that is denied, and the end', async () => {
    const { shell, shows } = terminal('chat');
    await shows('you ›');
    shell.line('calculate 23*47');
    await shows('23 * 47 is 1081.');
    expect(shell.screen).toContain('→ calculator {"a":23,"b":47,"op":"*"}');

    shell.line('notify the build is green');
    await shows('[y]es  [n]o  [a]lways  [e]dit >');
    expect(shell.screen).toContain('"text": "the build is green"');
    expect(notesOf('green')).toEqual([]);
    // Enter alone approves nothing.
    shell.press('Enter');
    await expect
      .poll(() => shell.screen.match(/\[e\]dit >/g)?.length, { timeout: 30_000 })
      .toBeGreaterThan(1);
    expect(notesOf('green')).toEqual([]);
    shell.line('y');
    await shows('The note was sent.');
    expect(notesOf('green')).toHaveLength(1);

    shell.line('notify the build is red');
    await shows('"text": "the build is red"');
    await shows('[e]dit > ');
    shell.line('n');
    await shows('Reason for the agent');
    shell.line('not on a Friday');
    await shows('it was denied (not on a Friday)');
    expect(notesOf('red')).toEqual([]);

    shell.press('C-d');
    await shows('Continue later: relay chat --conversation ');
    await shows('ended with 0');
    // The screen has each event once, in order and on a line of its own.
    const lines = shell.screen.split('\n').map((line) => line.trimEnd());
    const shown = lines
      .slice(lines.findIndex((line) => line.startsWith('you ›')))
      .filter((line) => /^(you ›|[→←?·]|  \[|  Reason|[A-Z0-9])/.test(line))
      .filter((line) => !/ tokens in, /.test(line));
    expect(shown.map((line) => line.replace(/(--conversation) \S+/, '$1 ID'))).toEqual([
      'you › calculate 23*47',
      '→ calculator {"a":23,"b":47,"op":"*"}',
      '← 1081',
      '23 * 47 is 1081.',
      'you › notify the build is green',
      '→ send_note {"to":"operator","text":"the build is green"}',
      '? send_note needs approval:',
      '  [y]es  [n]o  [a]lways  [e]dit >',
      '? send_note needs approval:',
      '  [y]es  [n]o  [a]lways  [e]dit > y',
      '· approved',
      '← {"sent":true}',
      'The note was sent.',
      'you › notify the build is red',
      '→ send_note {"to":"operator","text":"the build is red"}',
      '? send_note needs approval:',
      '  [y]es  [n]o  [a]lways  [e]dit > n',
      '  Reason for the agent (optional) > not on a Friday',
      '· denied',
      '← {"status":"denied","reason":"not on a Friday"}',
      'The note was not sent: it was denied (not on a Friday).',
      'you ›',
      'Continue later: relay chat --conversation ID',
    ]);
  });

  test('a narrow screen that becomes narrower loses no line, also with wide characters', async () => {
    const { shell, shows } = terminal('chat', 'key', { columns: 34 });
    await shows('you ›');
    shell.line('notify 你好，世界 is what one says here');
    await shows('[e]dit >');
    shell.line('yep');
    await shows('Invalid choice: type y, n, a or e.');
    shell.resize(26);
    shell.line('e');
    await shows('Arguments > {"to":"operator","text":"你好，世界 is what one says here"}');
    shell.press(...Array.from({ length: 6 }, () => 'BSpace'));
    shell.line('世"}');
    await shows('The note was sent.');
    expect(notesOf('世')).toMatchObject([{ text: '你好，世界 is what one says 世' }]);
    const { screen } = shell;
    expect(screen).toContain('[y]es  [n]o  [a]lways  [e]dit > yep\n');
    expect(screen).toContain('type y, n, a or e.\n  [y]es  [n]o  [a]lways  [e]dit > e\n');
    shell.press('C-d');
    await shows('ended with 0');
  });

  test('arguments are edited in place, and "always" prompts only once', async () => {
    const { shell, shows } = terminal('chat');
    await shows('you ›');
    shell.line('notify draft words');
    await shows('[e]dit');
    shell.line('e');
    await shows('Arguments > {"to":"operator","text":"draft words"}');
    // Deletes `draft words"}`.
    shell.press(...Array.from({ length: 13 }, () => 'BSpace'));
    shell.line('better words"}');
    await shows('The note was sent');
    expect(notesOf('draft')).toEqual([]);
    expect(notesOf('better words')).toHaveLength(1);

    shell.line('notify twice');
    await shows('"text": "twice"');
    shell.line('a');
    await expect.poll(() => notesOf('twice').length, { timeout: 30_000 }).toBe(1);
    await expect
      .poll(() => shell.screen.trimEnd().endsWith('you ›'), { timeout: 30_000 })
      .toBe(true);
    shell.line('notify twice');
    await expect.poll(() => notesOf('twice').length, { timeout: 30_000 }).toBe(2);
    shell.line('/quit');
    await shows('ended with 0');
  });

  test('Ctrl-D at an approval leaves it for later, and --continue shows it again', async () => {
    const { shell, shows } = terminal('chat');
    await shows('you ›');
    shell.line('notify later');
    await shows('[e]dit >');
    shell.press('C-d');
    await shows('send_note waits for approval. Decide it later, here or with:');
    expect(shell.screen).toMatch(/^ {2}relay approvals approve \S+$/m);
    await shows('ended with 0');
    expect(notesOf('later')).toEqual([]);
    const again = terminal('chat --continue');
    await again.shows('you › notify later');
    expect(again.shell.screen).toContain(`assistant (demo) at ${server.url}`);
    await again.shows('[e]dit >');
    again.shell.line('y');
    await again.shows('The note was sent.');
    expect(notesOf('later')).toHaveLength(1);
  });

  test('arguments are edited in the editor of the user', async () => {
    const before = `export EDITOR="sed -i s/draft/final/"; `;
    const { shell, shows } = terminal('chat', 'key', { before });
    await shows('you ›');
    shell.line('notify the draft of the editor');
    await shows('[e]dit >');
    shell.line('e');
    await shows('The note was sent.');
    expect(notesOf('of the editor')).toMatchObject([{ text: 'the final of the editor' }]);
    // The terminal is the chat's again.
    shell.line('notify the draft of the inbox');
    await shows('"text": "the draft of the inbox"');
    const inbox = terminal('approvals watch', 'key', { before });
    await inbox.shows('the draft of the inbox');
    inbox.shell.line('e');
    await inbox.shows('approved by you');
    await expect
      .poll(() => notesOf('of the inbox'), { timeout: 30_000 })
      .toMatchObject([{ text: 'the final of the inbox' }]);
    await expect.poll(() => shell.screen.match(/The note was sent\./g)).toHaveLength(2);
    shell.line('exit');
    await shows('ended with 0');
  });

  test('commands: a mistyped one, a completed one, another conversation', async () => {
    const { shell, shows } = terminal('chat', 'key', { columns: 80 });
    await shows('you ›');
    shell.line('say 1');
    await shows('tokens in, 1 out');
    shell.line('/modle demo');
    await shows('Unknown command /modle. Did you mean /model? /help lists all.');
    shell.type('/mod');
    shell.press('Tab');
    await shows('you › /model');
    shell.line('demo');
    await shows('you › /model demo\nThe next message uses demo.');
    shell.line('/new');
    await shows('begins a new conversation.');
    shell.line('say 2');
    await shows('tokens in, 2 out');
    shell.line('/cost');
    await shows('1 run · ');
    shell.line('/resume');
    await shows('or Enter to stay >');
    shell.line('2');
    await expect
      .poll(() => shell.screen.match(/^you › say 1$/gm)?.length, { timeout: 30_000 })
      .toBe(2);
    shell.line('quit');
    await shows('ended with 0');
  });

  test('nothing of the spinner is left on the screen', async () => {
    const { shell, shows } = terminal('chat');
    await shows('you ›');
    shell.line('notify nothing else');
    await shows('[e]dit >');
    expect(shell.screen).not.toMatch(/[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]/);
    shell.line('n');
    await shows('Reason for the agent');
    shell.press('Enter');
    await shows('tokens in,');
    expect(shell.screen).not.toMatch(/[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]/);
  });

  test('chat works without a key on the same machine, with fewer choices', async () => {
    const { shell, shows } = terminal('chat', 'keyless');
    await shows('you ›');
    expect(shell.screen).toContain(
      'Without a key (RELAY_API_KEY or --profile) this chat has the model demo only',
    );
    shell.line('notify no key needed');
    await shows('[y]es  [n]o  [a]lways >');
    shell.line('o');
    await shows('The note was sent.');
    expect(notesOf('no key needed')).toHaveLength(1);
    shell.press('C-c');
    await shows('ended with 0');
  });

  test('Ctrl-C cancels the current run, or exits at the prompt', async () => {
    const { shell, shows } = terminal('chat');
    await shows('you ›');
    shell.line('slow 600000');
    await shows('I wait for 600000 ms');
    shell.press('C-c');
    await shows('(canceled)');
    // Each note is on a line of its own.
    expect(shell.screen).toMatch(/^I wait for 600000 ms\n\(canceling; .*\)\n\(canceled\)$/m);
    const { runs } = (await (await server.request('/v1/runs?status=canceled')).json()) as {
      runs: { input: string }[];
    };
    expect(runs.map(({ input }) => input)).toContain('slow 600000');
    shell.line('say 3');
    await expect.poll(() => shell.screen).toMatch(/^1 2 3\n.* tokens in, 3 out · .* s\n\nyou ›/m);
    shell.press('C-c');
    await shows('ended with 0');
  });

  test('text typed while an answer streams is the next message, and never decides an approval', async () => {
    const { shell, shows } = terminal('chat');
    await shows('you ›');
    shell.line('slow 4000');
    await shows('I wait for 4000 ms');
    shell.line('notify typed ahead');
    shell.line('a');
    shell.type('o');
    await shows('"text": "typed ahead"');
    await shows('typed before this request: a');
    await shows('[y]es');
    shell.press('Enter');
    await expect
      .poll(() => shell.screen.match(/\[e\]dit >/g)?.length, { timeout: 30_000 })
      .toBeGreaterThan(1);
    expect(notesOf('typed ahead')).toEqual([]);
    shell.line('d');
    await shows('Reason for the agent');
    shell.press('Enter');
    await shows('it was denied');
    expect(notesOf('typed ahead')).toEqual([]);
  });

  test('a prompt is dismissed when another approver decides first', async () => {
    const { shell, shows } = terminal('chat');
    await shows('you ›');
    shell.line('notify from elsewhere');
    await shows('[y]es');
    const pending = await server.request('/v1/approvals?status=pending&limit=1');
    const { approvals } = (await pending.json()) as { approvals: { id: string }[] };
    shell.type('half an ans');
    await shows('half an ans');
    await server.request(`/v1/approvals/${approvals[0]?.id}`, { body: { approved: true } });
    await shows('(approved by you ');
    await shows('The note was sent.');
    // The discarded input is not sent as a message.
    shell.line('say 4');
    await shows('1 2 3 4');
    expect(notesOf('from elsewhere')).toHaveLength(1);
  });

  test('a waiting conversation is resumed after the server was killed', async () => {
    const first = terminal('chat');
    await first.shows('you ›');
    first.shell.line('notify survived');
    await first.shows('[y]es');
    const { runs } = (await (await server.request('/v1/runs?status=waiting')).json()) as {
      runs: { conversationId: string }[];
    };
    first.shell.close();
    await server.kill();
    await server.start();
    const again = terminal(`chat --conversation ${runs[0]?.conversationId}`);
    await again.shows('you › notify survived');
    await again.shows('[y]es');
    again.shell.line('o');
    await again.shows('The note was sent.');
    expect(notesOf('survived')).toHaveLength(1);
  });

  test('a connection lost during an answer is noted on a line of its own', async () => {
    const { shell, shows } = terminal('chat');
    await shows('you ›');
    shell.line('slow 6000');
    await shows('I wait for 6000 ms');
    const { port } = new URL(server.url);
    await server.kill();
    await shows('(connection lost; trying again)');
    await server.start({ RELAY_PORT: port });
    await shows('I wait for 6000 ms and go on.');
    expect(shell.screen).toMatch(
      /^I wait for 6000 ms\n\(connection lost; trying again\)\n\(connected again\)\n· the answer was interrupted/m,
    );
  });

  test('a connection lost at a prompt leaves the prompt on the screen', async () => {
    const { shell, shows } = terminal('chat');
    await shows('you ›');
    shell.line('notify after the break');
    await shows('[e]dit >');
    const { port } = new URL(server.url);
    await server.kill();
    await shows('(connection lost; trying again)');
    const { screen } = shell;
    expect(screen).toMatch(/\[e\]dit >\s*\n\(connection lost.*\)\n {2}\[y\]es .*\[e\]dit >/);
    await server.start({ RELAY_PORT: port });
    shell.line('o');
    await shows('The note was sent.');
    expect(notesOf('after the break')).toHaveLength(1);
  });

  test('a message waits for a server that restarts, until Ctrl-C withdraws it', async () => {
    const { shell, shows } = terminal('chat');
    await shows('you ›');
    const { port } = new URL(server.url);
    await server.kill();
    shell.line('notify nothing');
    await shows('(no connection; your message is sent when the server accepts it)');
    await shows('waiting for the server');
    shell.press('C-c');
    await shows('(your message is withdrawn)');
    shell.line('calculate 23*47');
    await expect
      .poll(() => shell.screen.match(/no connection/g), { timeout: 30_000 })
      .toHaveLength(2);
    await server.start({ RELAY_PORT: port });
    await shows('23 * 47 is 1081.');
    const runs = await (await server.request('/v1/runs?limit=5')).text();
    expect(runs).toContain('calculate 23*47');
    expect(runs).not.toContain('notify nothing');
  });

  test('colour is used on terminals, except with NO_COLOR', async () => {
    const coloured = terminal('chat "calculate 1+1"');
    await coloured.shows('ended with 0');
    expect(coloured.shell.colours).toContain('\u001B[36m→ calculator');
    const plain = terminal('chat "calculate 1+1"', 'key', { before: 'NO_COLOR=1 ' });
    await plain.shows('ended with 0');
    expect(plain.shell.screen).toContain('→ calculator');
    expect(plain.shell.colours).not.toContain('\u001B[36m→');
  });

  test('a secret is not echoed', async () => {
    const { shell, shows } = terminal('credentials set openai --label typed');
    await shows('API key for openai');
    shell.line('sk-never-on-the-screen');
    await shows('Stored the key …reen for openai.');
    expect(shell.screen).not.toContain('sk-never');
    await shows('ended with 0');
  });

  test('init asks for the folder, and Ctrl-C at the question makes nothing', async () => {
    const { shell, shows } = terminal('init --no-install');
    await shows('Folder? (my-bot)');
    shell.press('C-c');
    await shows('relay: nothing was made [interrupted]');
    await shows('ended with 130');
    expect(readdirSync(elsewhere)).not.toContain('my-bot');
  });
});
