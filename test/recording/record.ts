/**
 * Records docs/images/chat.svg: `npm run recording`. A person uses `relay chat` in a real terminal, with a
 * server and the demo model.
 */
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type IPty, spawn } from '@lydell/node-pty';
import xterm, { type IBufferCell } from '@xterm/headless';
import { relayBin } from '../support/cli.ts';
import { TestServer } from '../support/server.ts';
import { type Frame, type Run, svgOf } from './svg.ts';

const size = { columns: 80, rows: 26 };
const target = fileURLToPath(new URL('../../docs/images/chat.svg', import.meta.url));

/** A shell whose screens are recorded. Waiting is shortened, typing has the speed of a person. */
class Recorder {
  readonly #pty: IPty;
  readonly #screen = new xterm.Terminal({
    cols: size.columns,
    rows: size.rows,
    allowProposedApi: true,
  });
  readonly #port: string;
  #frames: { rows: Run[][]; ms: number }[] = [];

  constructor(cwd: string, env: Record<string, string>) {
    this.#port = new URL(env['RELAY_URL'] ?? '').port;
    this.#pty = spawn('bash', ['--norc', '--noprofile'], {
      name: 'xterm-256color',
      cols: size.columns,
      rows: size.rows,
      cwd,
      env,
    });
    this.#pty.onData((data) => this.#screen.write(data));
  }

  get frames(): readonly Frame[] {
    return this.#frames;
  }

  async type(text: string): Promise<void> {
    for (const char of text) {
      this.#pty.write(char);
      await this.#changed();
      this.#take(char === ' ' ? 90 : 60);
    }
    this.pause(350);
  }

  async line(text: string): Promise<void> {
    await this.type(text);
    this.#pty.write('\r');
  }

  press(key: string): void {
    this.#pty.write(key);
  }

  /** Records what happens until the text is below the last one. */
  async until(text: string): Promise<void> {
    const deadline = Date.now() + 30_000;
    while (!this.#lastLines().includes(text)) {
      if (Date.now() > deadline)
        throw new Error(`"${text}" is not on the screen:\n${this.#lastLines()}`);
      await this.#changed();
      this.#take(80);
    }
    this.#take(80);
  }

  /** Shows the last screen for longer. */
  pause(ms: number): void {
    const last = this.#frames.at(-1);
    if (last !== undefined) last.ms += ms;
  }

  close(): void {
    this.#pty.kill();
    this.#screen.dispose();
  }

  async #changed(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, 60));
  }

  #take(ms: number): void {
    const rows = this.#rows();
    const last = this.#frames.at(-1);
    if (last !== undefined && JSON.stringify(last.rows) === JSON.stringify(rows)) return;
    this.#frames.push({ rows, ms });
  }

  /** The last line with text, and the one before it. */
  #lastLines(): string {
    const { active } = this.#screen.buffer;
    return Array.from({ length: size.rows }, (_, at) =>
      active.getLine(active.baseY + at)?.translateToString(true),
    )
      .filter((line) => line !== undefined && line !== '')
      .slice(-2)
      .join('\n');
  }

  #rows(): Run[][] {
    const { buffer } = this.#screen;
    const { baseY, cursorX, cursorY } = buffer.active;
    return Array.from({ length: size.rows }, (_, at) => {
      const runs: Run[] = [];
      const line = buffer.active.getLine(baseY + at);
      for (let column = 0; column < size.columns; column += 1) {
        const isCursor = at === cursorY && column === cursorX;
        const drawn = line?.getCell(column);
        const text = isCursor ? '█' : drawn?.getChars() || ' ';
        const look = isCursor || drawn === undefined ? 'cursor' : lookOf(drawn);
        const last = runs.at(-1);
        if (last?.look === look) runs[runs.length - 1] = { ...last, text: last.text + text };
        else runs.push({ text, column, look });
      }
      return runs.flatMap((run) => this.#trimmed(run));
    });
  }

  #trimmed(run: Run): Run[] {
    const text = run.text.trimEnd().replace(`127.0.0.1:${this.#port}`, '127.0.0.1:4000');
    const spaces = text.length - text.trimStart().length;
    if (text === '') return [];
    return [{ ...run, text: text.trimStart(), column: run.column + spaces }];
  }
}

const colours: Readonly<Record<number, string>> = { 1: 'red', 2: 'green', 3: 'yellow', 6: 'cyan' };

function lookOf(cell: IBufferCell): string {
  return [
    cell.isBold() !== 0 ? 'bold' : '',
    cell.isDim() !== 0 ? 'dim' : '',
    cell.isItalic() !== 0 ? 'italic' : '',
    cell.isUnderline() !== 0 ? 'underline' : '',
    cell.isFgPalette() ? (colours[cell.getFgColor()] ?? '') : '',
  ]
    .filter((name) => name !== '')
    .join(' ');
}

async function main(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'relay-recording-'));
  const server = new TestServer();
  await server.start();
  symlinkSync(relayBin, join(folder, 'relay'));
  const recorder = new Recorder(folder, {
    PATH: [folder, dirname(process.execPath), process.env['PATH'] ?? ''].join(':'),
    HOME: folder,
    PS1: '$ ',
    TERM: 'xterm-256color',
    RELAY_URL: server.url,
    RELAY_API_KEY: server.apiKey,
  });
  try {
    await recorder.until('$');
    await play(recorder);
    const { frames } = recorder;
    const title = 'relay chat in a terminal: an answer, an approval, and the chat continued later';
    writeFileSync(target, svgOf(frames, size, title));
    console.log(`${target}: ${frames.length} screens`);
  } finally {
    recorder.close();
    await server.dispose();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function play(recorder: Recorder): Promise<void> {
  await recorder.line('relay chat');
  await recorder.until('you ›');
  recorder.pause(600);
  await recorder.line('What can you do?');
  await recorder.until('tokens in');
  await recorder.until('you ›');
  recorder.pause(2_500);
  await recorder.line('notify the build is green');
  await recorder.until('[e]dit >');
  recorder.pause(1_500);
  await recorder.line('y');
  await recorder.until('you ›');
  recorder.pause(2_000);
  await recorder.line('exit');
  await recorder.until('$');
  recorder.pause(1_500);
  await recorder.line('clear');
  await recorder.until('$');
  await recorder.line('relay chat --continue');
  await recorder.until('you ›');
  recorder.pause(1_200);
  await recorder.line('calculate 23*47');
  await recorder.until('tokens in');
  await recorder.until('you ›');
  recorder.pause(1_500);
  await recorder.line('/cost');
  await recorder.until('runs ·');
  await recorder.until('you ›');
  recorder.pause(5_000);
}

await main();
