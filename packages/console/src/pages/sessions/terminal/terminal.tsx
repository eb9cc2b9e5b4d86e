/**
 * The terminal of a session. It shows the screen with the size that the program has; looking changes
 * nothing. Those who may type can give the program the size of the window.
 *
 * - The server paints the whole screen after a resize, beginning with a reset, and now and then by itself.
 *   What was output before such a reset is not needed.
 * - The server's own terminal answers what a program asks its terminal: what this one answers is not sent.
 */
import '@xterm/xterm/css/xterm.css';
import {
  RelayApiError,
  type Session,
  type StoredSessionEvent,
  type TerminalInput,
} from '@relay/sdk';
import { FitAddon } from '@xterm/addon-fit';
import { Terminal as XTerm } from '@xterm/xterm';
import { Maximize } from 'lucide-react';
import { useEffect, useRef, useState } from 'react';
import { useMay } from '../../../api/account.tsx';
import { client } from '../../../api/client.ts';
import { Button } from '../../../ui/button.tsx';
import { cx } from '../../../ui/cx.ts';
import { errorText } from '../../../ui/notice.tsx';
import { openWithStyles } from './styles.ts';
import { beginningOf, sinceReset, withoutAnswers } from './text.ts';
import { useVisible } from '../visible.ts';

/** Events from the end of the journal in which a whole screen is looked for. */
const lookBack = 1_000;
/** The most that the server takes at once is twice as much. */
const maxTypedChars = 32 * 1024;

export function Terminal({ session }: { readonly session: Session }) {
  const { id, identity, status } = session;
  const mayRun = useMay('runs');
  const mayApprove = useMay('approve');
  const isVisible = useVisible();
  const place = useRef<HTMLDivElement>(null);
  const screen = useRef<Screen>(null);
  const [problem, setProblem] = useState<string>();
  const [isFitted, setFitted] = useState(false);
  const isOver = status === 'released' || status === 'failed' || status === 'offline';
  const mayType = mayRun && mayApprove && !isOver;

  useEffect(() => {
    if (place.current === null) return undefined;
    const made = new Screen(place.current, id, setProblem);
    screen.current = made;
    return () => {
      screen.current = null;
      made.dispose();
    };
  }, [id]);
  useEffect(() => screen.current?.setMayType(mayType), [mayType, id]);
  useEffect(() => screen.current?.setFitted(isFitted && mayType), [isFitted, mayType, id]);
  useEffect(() => {
    if (!isVisible) return undefined;
    const stop = new AbortController();
    void screen.current?.follow(stop.signal, mayType);
    return () => stop.abort();
    // Whether one may type matters only for the first screen.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [id, isVisible]);

  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <div className="flex min-h-10 flex-wrap items-center gap-x-3 border-b border-line px-4 py-1 text-xs text-muted">
        <span>{aboutTyping({ isOver, mayType, status })}</span>
        {problem === undefined ? null : (
          <span role="alert" className="text-failed">
            {problem}
          </span>
        )}
        {mayType ? (
          <Button
            size="sm"
            id="leave-terminal"
            className="ml-auto"
            aria-pressed={isFitted}
            title="Gives the program the size of this window"
            onClick={() => setFitted(!isFitted)}
          >
            <Maximize aria-hidden size={12} /> {isFitted ? 'Keep this size' : 'Fit to the window'}
          </Button>
        ) : null}
      </div>
      <div className="min-h-0 flex-1 overflow-auto bg-surface p-2">
        <div
          ref={place}
          role="group"
          aria-label={`Terminal of @${identity.handle}`}
          className={cx('h-full', !isFitted && 'min-w-max')}
        />
      </div>
    </div>
  );
}

function aboutTyping({
  isOver,
  mayType,
  status,
}: {
  readonly isOver: boolean;
  readonly mayType: boolean;
  readonly status: string;
}): string {
  if (isOver) return `The terminal is ${status}. This is the last that it showed.`;
  if (!mayType) return 'You may look: typing needs the scopes runs and approve.';
  return 'What you type goes to the program. Ctrl ] leaves the terminal.';
}

class Screen {
  readonly #sessionId: string;
  readonly #report: (problem: string | undefined) => void;
  readonly #over = new AbortController();
  readonly #terminal: XTerm;
  readonly #close: () => void;
  readonly #fit = new FitAddon();
  readonly #resizes: ResizeObserver;
  readonly #themes = new MutationObserver(() => this.#setTheme());
  #mayType = false;
  #isFitted = false;
  /** The last event that was shown. */
  #seq: number | undefined;
  /** The last whole screen, and what was output after it. */
  #sinceReset = '';
  #typed = '';
  #size: { readonly cols: number; readonly rows: number } | undefined;
  #isSending = false;

  constructor(place: HTMLElement, sessionId: string, report: (problem?: string) => void) {
    this.#sessionId = sessionId;
    this.#report = report;
    this.#terminal = new XTerm({
      cols: 120,
      rows: 40,
      fontSize: 13,
      fontFamily: getComputedStyle(document.documentElement).getPropertyValue('--font-mono'),
      scrollback: 5_000,
      disableStdin: true,
      screenReaderMode: true,
    });
    this.#terminal.loadAddon(this.#fit);
    this.#close = openWithStyles(this.#terminal, place);
    this.#terminal.onData((keys) => this.#type(keys));
    this.#terminal.attachCustomKeyEventHandler((event) => {
      if (!event.ctrlKey || event.key !== ']') return true;
      // The keyboard must not be caught in the terminal.
      document.getElementById('leave-terminal')?.focus();
      return false;
    });
    this.#resizes = new ResizeObserver(() => this.#fitWindow());
    this.#resizes.observe(place.parentElement ?? place);
    this.#themes.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    this.#setTheme();
  }

  dispose(): void {
    this.#over.abort();
    this.#resizes.disconnect();
    this.#themes.disconnect();
    this.#terminal.dispose();
    this.#close();
  }

  #setTheme(): void {
    const colour = (name: string) =>
      getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const isDark = document.documentElement.dataset['theme'] === 'dark';
    this.#terminal.options.theme = {
      background: colour('--surface'),
      foreground: colour('--text'),
      cursor: colour('--text'),
      cursorAccent: colour('--surface'),
      selectionBackground: colour('--line-strong'),
      ...(isDark ? {} : lightColours),
    };
  }

  setMayType(mayType: boolean): void {
    this.#mayType = mayType;
    this.#terminal.options.disableStdin = !mayType;
  }

  setFitted(isFitted: boolean): void {
    this.#isFitted = isFitted;
    this.#fitWindow();
  }

  #fitWindow(): void {
    if (!this.#isFitted) return;
    const { cols = 0, rows = 0 } = this.#fit.proposeDimensions() ?? {};
    if (cols < 2 || rows < 2) return;
    this.#size = { cols: Math.min(cols, 1_000), rows: Math.min(rows, 1_000) };
    void this.#send();
  }

  /** Shows the screen and what follows, until the signal is aborted; goes on where it was. */
  async follow(stopped: AbortSignal, mayType: boolean): Promise<void> {
    const signal = AbortSignal.any([stopped, this.#over.signal]);
    try {
      this.#seq ??= await this.#begin(signal, mayType);
      const events = client.sessions.stream(this.#sessionId, {
        after: this.#seq,
        signal,
        // As long as the page is open, like the feed.
        reconnectTimeoutMs: Infinity,
        onDisconnect: () => this.#report('The connection broke. Connecting again …'),
      });
      for await (const event of events) {
        this.#report(undefined);
        this.#show(event);
      }
    } catch (error) {
      if (!signal.aborted) this.#report(errorText(error));
    }
  }

  /** The last screen that is known; the position after it. */
  async #begin(signal: AbortSignal, mayType: boolean): Promise<number> {
    const { lastSeq } = await client.sessions.get(this.#sessionId, { signal });
    const known = await this.#readEnd(lastSeq, signal);
    const { events, isWhole } = beginningOf(known);
    for (const event of events) this.#show(event);
    // The same size again: the program is not disturbed, and its screen is painted.
    const { cols, rows } = this.#terminal;
    if (!isWhole && mayType) await this.#input({ resize: { cols, rows } });
    return known.at(-1)?.seq ?? lastSeq;
  }

  async #readEnd(lastSeq: number, signal: AbortSignal): Promise<readonly StoredSessionEvent[]> {
    const query = { after: Math.max(0, lastSeq - lookBack), limit: lookBack };
    const read = (from: { after?: number; limit: number }) =>
      client.sessions.events(this.#sessionId, from, { signal }).page();
    try {
      return (await read(query)).items;
    } catch (error) {
      if (!(error instanceof RelayApiError) || error.code !== 'journal_pruned') throw error;
      return (await read({ limit: lookBack })).items;
    }
  }

  #show(event: StoredSessionEvent): void {
    this.#seq = event.seq;
    if (event.type === 'terminal.output') {
      this.#terminal.write(event.text);
      this.#sinceReset = sinceReset(this.#sinceReset, event.text);
    }
    if (event.type !== 'terminal.screen') return;
    const { cols = this.#terminal.cols, rows = this.#terminal.rows } = event;
    const isSame = cols === this.#terminal.cols && rows === this.#terminal.rows;
    if (isSame || this.#size !== undefined) return;
    // Another viewer has changed the size, and the screen was painted before that was known here.
    this.#terminal.resize(cols, rows);
    this.#terminal.write(this.#sinceReset);
  }

  #type(keys: string): void {
    const typed = withoutAnswers(keys);
    if (!this.#mayType || typed === '') return;
    this.#typed += typed;
    void this.#send();
  }

  /** One request at a time: keys that come meanwhile go together with the next one. */
  async #send(): Promise<void> {
    if (this.#isSending) return;
    this.#isSending = true;
    try {
      while (!this.#over.signal.aborted && (this.#size !== undefined || this.#typed !== '')) {
        await this.#sendNext();
      }
      this.#report(undefined);
    } catch (error) {
      // It is not known whether the keys have arrived: they are not sent again.
      this.#typed = '';
      this.#size = undefined;
      this.#report(`It was not typed: ${errorText(error)}`);
    } finally {
      this.#isSending = false;
    }
  }

  async #sendNext(): Promise<void> {
    const size = this.#size;
    if (size !== undefined) {
      this.#terminal.resize(size.cols, size.rows);
      await this.#input({ resize: size });
      if (this.#size === size) this.#size = undefined;
      return;
    }
    const text = this.#typed.slice(0, maxTypedChars);
    this.#typed = this.#typed.slice(text.length);
    await this.#input({ text });
  }

  #input(input: TerminalInput): Promise<void> {
    return client.sessions.input(this.#sessionId, input, { signal: this.#over.signal });
  }
}

/** The defaults are made for a dark background. */
const lightColours = {
  black: '#16181d',
  red: '#b3261e',
  green: '#1a6b3c',
  yellow: '#8a4b00',
  blue: '#0b5cc4',
  magenta: '#8a2a8a',
  cyan: '#0f6674',
  white: '#525866',
  brightBlack: '#646b79',
  brightRed: '#b3261e',
  brightGreen: '#1a6b3c',
  brightYellow: '#8a4b00',
  brightBlue: '#0b5cc4',
  brightMagenta: '#8a2a8a',
  brightCyan: '#0f6674',
  brightWhite: '#16181d',
};
