/**
 * A program in a terminal, inside its host process (`host.ts`): what is typed, what it outputs, and what that
 * looks like.
 *
 * - Output is joined for 50 ms; for up to 250 ms while it goes on without anything being typed. A program that
 *   outputs more than a terminal can usefully show is not read for a while, which slows it down.
 * - Everything that uses the screen is done one after the other: the screen shows what has been reported.
 * - The status is inferred. `active`: something was typed, output goes on, or another program than the first
 *   one has the terminal, such as a command of a shell. `idle`: none of it, for a second.
 */
import { spawn, type IPty } from '@lydell/node-pty';
import { readFileSync, write } from 'node:fs';
import type { AgentSessionEvent, AgentStatus } from '@relay/protocol';
import type { TerminalReport, TerminalRequest, TerminalStart } from './host-messages.ts';
import { Screen } from './screen.ts';

const charsPerEvent = 4 * 1024;
const shortestJoinMs = 50;
const longestJoinMs = 250;
/** Read and not yet reported. */
const maxPendingChars = 64 * 1024;
const charsPerSecond = 256 * 1024;
/** So much may come at once. */
const burstChars = 1024 * 1024;
/** Shorter than the time for which the output of a program that has exited can still be read. */
const readPauseMs = 100;
/** A reader who begins with the output that is kept finds a whole screen in it. */
const charsPerPainting = 512 * 1024;

const observeMs = 250;
const screenQuietMs = 300;
const screenEveryMs = 1_000;
const screenAtLatestMs = 5_000;
const idleAfterMs = 1_000;
/** Larger screens are not reported. */
const maxScreenChars = 256 * 1024;

const maxUnwrittenBytes = 256 * 1024;
const writeAgainMs = 10;
/** What a program has not read by then is not typed. */
const writeTimeoutMs = 5_000;

export class TerminalProgram {
  readonly #program: IPty;
  readonly #screen: Screen;
  readonly #report: (report: TerminalReport) => void;
  #work: Promise<void> = Promise.resolve();
  #writing: Promise<void> = Promise.resolve();
  #unwrittenBytes = 0;
  /** When the program had no room for more input. */
  #unreadSince: number | undefined;
  #hasExited = false;

  #pending = '';
  #joinMs = shortestJoinMs;
  #joining: NodeJS.Timeout | undefined;
  #allowance = burstChars;
  #allowedAt = Date.now();
  #isPaused = false;
  #sincePainting = 0;

  #status: AgentStatus = 'starting';
  #outputSince = Date.now();
  #outputAt = Date.now();
  #observing: NodeJS.Timeout | undefined;
  #isScreenNew = true;
  #screenAt = 0;
  #screenText = '';

  constructor(start: TerminalStart, report: (report: TerminalReport) => void) {
    const { file, args, cwd, env, cols, rows } = start;
    this.#report = report;
    this.#screen = new Screen({ cols, rows }, (text) => {
      void this.#write(text).catch(() => undefined);
    });
    this.#program = spawn(file, [...args], { name: 'xterm-256color', cols, rows, cwd, env });
    this.#program.onData((text) => this.#receive(text));
    this.#program.onExit((exit) => void this.#exit(exit));
    this.#observe();
  }

  get pid(): number {
    return this.#program.pid;
  }

  async handle(request: TerminalRequest): Promise<void> {
    const { id } = request;
    try {
      await this.#carryOut(request);
      this.#report({ type: 'answer', id });
    } catch (error) {
      this.#report({ type: 'answer', id, error: (error as Error).message });
    }
  }

  async #carryOut(request: TerminalRequest): Promise<void> {
    if (this.#hasExited) throw new Error('The program has exited');
    switch (request.type) {
      case 'type':
        this.#typed();
        return this.#write(request.text);
      case 'submit':
        // What the program output before it says whether it accepts pasted text.
        await this.#inTurn(() => this.#flush());
        this.#typed();
        return this.#write(this.#submitted(request.text));
      case 'resize':
        return this.#inTurn(async () => {
          await this.#flush();
          this.#program.resize(request.cols, request.rows);
          this.#screen.resize(request);
          this.#isScreenNew = true;
          this.#observe();
          this.#paint();
        });
    }
  }

  #submitted(text: string): string {
    return this.#screen.acceptsPaste
      ? `\x1b[200~${text}\x1b[201~\r`
      : `${text.replaceAll('\n', '\r')}\r`;
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const done = this.#work.then(work);
    this.#work = done.catch(() => undefined);
    return done;
  }

  #receive(text: string): void {
    const now = Date.now();
    if (now - this.#outputAt >= idleAfterMs) this.#outputSince = now;
    this.#outputAt = now;
    this.#pending += text;
    this.#allowance -= text.length;
    this.#observe();
    if (this.#pending.length >= maxPendingChars || this.#refill() <= 0) this.#pause();
    this.#joining ??= setTimeout(() => {
      this.#joining = undefined;
      this.#joinMs = Math.min(this.#joinMs * 2, longestJoinMs);
      void this.#inTurn(() => this.#flush());
    }, this.#joinMs);
  }

  #refill(): number {
    const now = Date.now();
    const added = ((now - this.#allowedAt) * charsPerSecond) / 1_000;
    this.#allowance = Math.min(this.#allowance + added, burstChars);
    this.#allowedAt = now;
    return this.#allowance;
  }

  #pause(): void {
    if (this.#isPaused) return;
    this.#isPaused = true;
    this.#program.pause();
    const resume = () => {
      if (this.#hasExited) return;
      // The screen, or the reader of the reports, is behind.
      if (this.#refill() <= 0 || this.#pending.length >= maxPendingChars) {
        setTimeout(resume, readPauseMs);
        return;
      }
      this.#isPaused = false;
      this.#program.resume();
    };
    setTimeout(resume, readPauseMs);
  }

  async #flush(): Promise<void> {
    const text = this.#pending;
    if (text === '') return;
    this.#pending = '';
    this.#output(text);
    await this.#screen.write(text);
    this.#isScreenNew = true;
    this.#sincePainting += text.length;
    if (this.#sincePainting >= charsPerPainting) this.#paint();
  }

  #paint(): void {
    this.#sincePainting = 0;
    this.#output(this.#screen.painted);
  }

  #output(text: string): void {
    for (let from = 0; from < text.length;) {
      let to = Math.min(from + charsPerEvent, text.length);
      // Both halves of a character.
      if (to < text.length && /[\uD800-\uDBFF]/.test(text.charAt(to - 1))) to -= 1;
      this.#emit({ type: 'terminal.output', stream: 'combined', text: text.slice(from, to) });
      from = to;
    }
  }

  #emit(event: AgentSessionEvent): void {
    this.#report({ type: 'event', event: { ...event, fidelity: 'inferred' } });
  }

  #typed(): void {
    this.#joinMs = shortestJoinMs;
    this.#outputAt = Date.now();
    this.#setStatus('active');
    this.#observe();
  }

  #setStatus(status: AgentStatus): void {
    if (this.#status === status) return;
    this.#status = status;
    this.#emit({ type: 'status.changed', status });
  }

  /** Until nothing changes any more: an idle terminal has no timer. */
  #observe(): void {
    this.#observing ??= setInterval(() => void this.#inTurn(() => this.#look()), observeMs);
  }

  async #look(): Promise<void> {
    const now = Date.now();
    const quietMs = now - this.#outputAt;
    const isQuiet = quietMs >= idleAfterMs;
    if (isQuiet) this.#joinMs = shortestJoinMs;
    const sinceScreen = now - this.#screenAt;
    const isStill = quietMs >= screenQuietMs && sinceScreen >= screenEveryMs;
    if (this.#isScreenNew && (isStill || sinceScreen >= screenAtLatestMs)) this.#showScreen();
    if (isQuiet && hasTerminal(this.pid)) this.#setStatus('idle');
    else if (!isQuiet && this.#outputAt - this.#outputSince >= idleAfterMs) {
      this.#setStatus('active');
    }
    if (!isQuiet || this.#isScreenNew || this.#status !== 'idle' || this.#pending !== '') return;
    clearInterval(this.#observing);
    this.#observing = undefined;
  }

  #showScreen(): void {
    this.#isScreenNew = false;
    this.#screenAt = Date.now();
    const { text, size } = this.#screen;
    if (text === this.#screenText || text.length > maxScreenChars) return;
    this.#screenText = text;
    this.#emit({ type: 'terminal.screen', text, ...size });
  }

  /** One after the other. Rejects if the program does not read its input. */
  #write(text: string): Promise<void> {
    const bytes = Buffer.from(text);
    if (this.#unwrittenBytes + bytes.length > maxUnwrittenBytes) {
      return Promise.reject(new Error('The program does not read its input'));
    }
    this.#unwrittenBytes += bytes.length;
    const written = this.#writing
      .then(() => this.#writeAll(bytes))
      .finally(() => {
        this.#unwrittenBytes -= bytes.length;
      });
    this.#writing = written.catch(() => undefined);
    return written;
  }

  async #writeAll(bytes: Buffer): Promise<void> {
    // The terminal's own `write` blocks this process while its program does not read.
    const { fd } = this.#program as IPty & { readonly fd: number };
    for (let at = 0; at < bytes.length;) {
      if (this.#hasExited) throw new Error('The program has exited');
      const count = await writeSome(fd, bytes.subarray(at));
      at += count;
      if (count > 0) this.#unreadSince = undefined;
      else if (Date.now() - (this.#unreadSince ??= Date.now()) < writeTimeoutMs) {
        await after(writeAgainMs);
      } else {
        throw new Error(`The program does not read its input: ${at} bytes of it were typed`);
      }
    }
  }

  async #exit({ exitCode, signal = 0 }: { exitCode: number; signal?: number }): Promise<void> {
    clearTimeout(this.#joining);
    clearInterval(this.#observing);
    await this.#inTurn(async () => {
      await this.#flush();
      this.#showScreen();
    });
    this.#hasExited = true;
    this.#report({ type: 'exited', exitCode, signal });
  }
}

/** 0 if the program has to read some of it first. */
function writeSome(fd: number, bytes: Buffer): Promise<number> {
  return new Promise((resolve, reject) => {
    write(fd, bytes, (error, count) => {
      if (error === null) resolve(count);
      else if (error.code === 'EAGAIN') resolve(0);
      else reject(error);
    });
  });
}

function after(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

/**
 * Whether the first program of the terminal reads what is typed: its process group is in the foreground. A
 * shell gives the terminal to the commands that it runs. True if that cannot be known.
 */
function hasTerminal(pid: number): boolean {
  try {
    const { group, foreground } = processOf(insideSandbox(pid));
    return group === foreground;
  } catch {
    return true;
  }
}

/** The program of bubblewrap, which has two processes around it. */
function insideSandbox(pid: number): number {
  if (processOf(pid).name !== 'bwrap') return pid;
  const [child] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ');
  return insideSandbox(Number(child));
}

function processOf(pid: number) {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const end = stat.lastIndexOf(')');
  const [, , group, , , foreground] = stat.slice(end + 2).split(' ');
  return { name: stat.slice(stat.indexOf('(') + 1, end), group, foreground };
}
