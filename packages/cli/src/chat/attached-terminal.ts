/**
 * The terminal of a session, in the terminal of a person: shows its screen, then its output as it comes, and
 * sends keys. Ctrl-] detaches; the program goes on.
 *
 * - It has the alternate screen of the person's terminal for itself: whatever the program does, what was
 *   there before is there again afterwards. So the program's own switches between screens are left out; the
 *   server paints the whole screen when it is asked for a resize.
 * - Keys wait while a request is under way, and go together with the next one.
 * - The server's terminal answers what a program asks its terminal. What this one answers, too, is not sent.
 */
import type { ReadStream } from 'node:tty';
import type { RelayClient, Session, StoredSessionEvent, TerminalInput } from '@relay/sdk';
import { type Output, relay } from '../environment.ts';
import { CliError, exitCodes, failureOf, isApiError, usageError } from '../errors.ts';
import type { Context } from '../command.ts';

const detachKey = '\x1d';
/** The most that the server takes at once is twice as much. */
const maxTypedChars = 32 * 1024;

const clear = '\x1b[0m\x1b[r\x1b[2J\x1b[H';
/** Of keys and mouse; the cursor is visible. */
const defaultModes = '\x1b[?1;9;66;1000;1002;1003;1004;1006;2004l\x1b[?25h';
const begin = '\x1b[?1049h';
const end = `\x1b[0m\x1b[r${defaultModes}\x1b[?1049l`;

export class AttachedTerminal {
  readonly #client: RelayClient;
  readonly #session: Session;
  readonly #stdin: ReadStream;
  readonly #stdout: Output & { readonly rows?: number };
  readonly #over = new AbortController();
  readonly #output = new OutputFilter();
  #typed = '';
  /** The size is to be sent, which also has the screen painted. */
  #isResized = true;
  #isSending = false;
  /** Nothing is shown before a whole screen was. */
  #isPainted = false;

  constructor({ environment }: Context, client: RelayClient, session: Session) {
    const { stdin, stdout } = environment;
    if (stdin.isTTY !== true || stdout.isTTY !== true) {
      throw usageError(
        'attach requires a terminal',
        `"${relay} sessions type" types text, "${relay} sessions tail" shows events`,
      );
    }
    this.#client = client;
    this.#session = session;
    this.#stdin = stdin as ReadStream;
    this.#stdout = stdout;
  }

  /** Why it has ended. Throws if it failed. */
  async run(): Promise<string> {
    // Fails while the terminal is as it was.
    await this.#client.sessions.input(this.#session.id, this.#size());
    this.#isResized = false;
    const stop = () => this.#leave();
    const resize = () => {
      this.#isResized = true;
      void this.#send();
    };
    const type = (keys: Buffer) => this.#type(keys.toString('utf8'));
    this.#stdin.setRawMode(true);
    this.#stdout.write(`${begin}${clear}`);
    this.#stdin.on('data', type);
    this.#stdout.on('resize', resize);
    for (const signal of ['SIGTERM', 'SIGHUP'] as const) process.once(signal, stop);
    try {
      return await this.#follow();
    } finally {
      for (const signal of ['SIGTERM', 'SIGHUP'] as const) process.off(signal, stop);
      this.#stdin.off('data', type);
      this.#stdin.pause();
      this.#stdout.off('resize', resize);
      this.#stdin.setRawMode(false);
      this.#stdout.write(end);
    }
  }

  async #follow(): Promise<string> {
    const { signal } = this.#over;
    const events = this.#client.sessions.stream(this.#session, {
      signal,
      onDisconnect: ({ attempt }) => {
        if (attempt > 1) return;
        this.#stdout.write('\r\n[The connection broke; connecting again …]\r\n');
        this.#isResized = true;
      },
      onReconnect: () => void this.#stdout.write('[Connected again.]\r\n'),
    });
    try {
      for await (const event of events) {
        const ended = this.#show(event);
        if (ended !== undefined) return ended;
        if (this.#isResized) void this.#send();
      }
    } catch (error) {
      if (!signal.aborted) throw error;
      if (signal.reason instanceof Detached) return signal.reason.message;
      throw signal.reason;
    }
    return `${this.#handle} has ended.`;
  }

  /** How the session has ended, if it has. Throws if it cannot be reached any more. */
  #show(event: StoredSessionEvent): string | undefined {
    if (event.type === 'terminal.output') this.#write(event.text);
    if (event.type === 'session.released') {
      return `${this.#handle} has ended: ${event.reason ?? 'it was released'}`;
    }
    const isLost =
      event.type === 'status.changed' && (event.status === 'offline' || event.status === 'failed');
    if (!isLost) return undefined;
    const why = event.reason ?? 'its terminal cannot be reached';
    throw new CliError('session_lost', `${this.#handle} is ${event.status}: ${why}`, {
      exit: exitCodes.conflict,
      hint: 'release it, and start another session',
    });
  }

  get #handle(): string {
    return `@${this.#session.identity.handle}`;
  }

  #write(text: string): void {
    const start = this.#isPainted ? 0 : text.indexOf('\x1bc');
    if (start < 0) return;
    this.#isPainted = true;
    const { shown, hasLeft } = this.#output.next(text.slice(start));
    this.#stdout.write(shown);
    if (!hasLeft) return;
    this.#isResized = true;
    void this.#send();
  }

  #type(keys: string): void {
    const at = keys.indexOf(detachKey);
    this.#typed += withoutAnswers(at < 0 ? keys : keys.slice(0, at));
    void this.#send().then(() => {
      if (at >= 0) this.#leave();
    });
  }

  #leave(): void {
    this.#over.abort(new Detached(`Detached from ${this.#handle}.`));
  }

  #size(): TerminalInput {
    const { columns = 80, rows = 24 } = this.#stdout;
    return { resize: { cols: Math.min(columns, 1_000), rows: Math.min(rows, 1_000) } };
  }

  /** One request at a time. Never rejects. */
  async #send(): Promise<void> {
    if (this.#isSending) return;
    this.#isSending = true;
    try {
      while (!this.#over.signal.aborted && (this.#isResized || this.#typed !== '')) {
        await this.#client.sessions.input(this.#session.id, this.#nextInput());
      }
    } catch (error) {
      const isDown = !isApiError(error) || failureOf(error).exit === exitCodes.unreachable;
      // The stream connects again. It is not known whether the keys have arrived.
      if (isDown) this.#stdout.write('\x07');
      else this.#over.abort(error);
      this.#typed = '';
    } finally {
      this.#isSending = false;
    }
  }

  #nextInput(): TerminalInput {
    if (this.#isResized) {
      this.#isResized = false;
      return this.#size();
    }
    const text = this.#typed.slice(0, maxTypedChars);
    this.#typed = this.#typed.slice(text.length);
    return { text };
  }
}

class Detached extends Error {
  override readonly name = 'Detached';
}

/** What a terminal sends by itself: reports of its cursor, colours, modes and version. */
function withoutAnswers(keys: string): string {
  return keys.replaceAll(
    // oxlint-disable-next-line no-control-regex
    /\x1b\[[?>]?[\d;]*[cnR]|\x1b\[\?[\d;]*\$y|\x1b[\]P][^\x07\x1b]*(?:\x07|\x1b\\)/g,
    '',
  );
}

const alternateScreens: readonly string[] = ['47', '1047', '1049'];

/** Output for a terminal that stays in its alternate screen. */
class OutputFilter {
  /** The beginning of a sequence whose rest has not come. */
  #rest = '';

  /** `hasLeft`: the program shows its main screen again, which has to be painted. */
  next(text: string): { readonly shown: string; readonly hasLeft: boolean } {
    const whole = this.#rest + text;
    // oxlint-disable-next-line no-control-regex
    this.#rest = /\x1b(?:\[[?\d;]{0,32})?$/.exec(whole)?.[0] ?? '';
    let hasLeft = false;
    const shown = whole
      .slice(0, whole.length - this.#rest.length)
      // oxlint-disable-next-line no-control-regex
      .replaceAll(/\x1bc|\x1b\[\?([\d;]+)([hl])/g, (sequence, modes?: string, set?: string) => {
        if (modes === undefined) return `${clear}${defaultModes}`;
        const others = modes.split(';').filter((mode) => !alternateScreens.includes(mode));
        if (others.length === modes.split(';').length) return sequence;
        if (set === 'l') hasLeft = true;
        return `${clear}${others.length === 0 ? '' : `\x1b[?${others.join(';')}${set}`}`;
      });
    return { shown, hasLeft };
  }
}
