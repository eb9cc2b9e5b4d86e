/**
 * A person's session in a terminal or a pipe: shows messages as they come, and sends lines. A message is
 * consumed when it was shown. A line without an address goes to whom the person wrote to, or who wrote to
 * the person, last; on a terminal to whom the prompt shows, which does not change while the person types.
 */
import type { ReceivedMessage, RelayClient, RemoteSession } from '@relay/sdk';
import type { Context } from '../command.ts';
import { CliError, exitCodes, failureOf } from '../errors.ts';
import { escapeUnsafe } from '../output/escape.ts';
import { Interrupted, Terminal } from './terminal.ts';

export interface SessionChatOptions {
  readonly handle: string;
  readonly name: string | undefined;
  /** The first partner. */
  readonly to: string | undefined;
  readonly takeover: boolean | undefined;
}

const help = [
  '@handle text    to a session',
  '#channel text   to the members of a channel',
  'text            to whom you wrote to, or who wrote to you, last',
  '/who            the sessions that can be written to',
  '/quit           leave; messages wait until you join again',
];

export class SessionChat {
  readonly #context: Context;
  readonly #client: RelayClient;
  readonly #terminal: Terminal;
  /** Of the next prompt. */
  #partner: string | undefined;
  /** Of the prompt that is shown. */
  #addressee: string | undefined;
  /** Lines of a script that failed. */
  #failures = 0;

  constructor(context: Context, client: RelayClient) {
    const { environment, print } = context;
    const { stdout, stderr } = environment;
    this.#context = context;
    this.#client = client;
    this.#terminal = new Terminal(environment, print.json ? stderr : stdout);
  }

  async run(options: SessionChatOptions): Promise<void> {
    this.#partner = options.to;
    const leaving = new AbortController();
    const interrupt = () => this.#terminal.interrupt();
    // While it waits for the handle, or for a server that restarts.
    this.#terminal.onInterrupt = () =>
      leaving.abort(new CliError('interrupted', 'Interrupted', { exit: exitCodes.interrupted }));
    process.on('SIGINT', interrupt);
    try {
      const session = await this.#serve(options, leaving.signal);
      const ended = new AbortController();
      void session.closed.then(() => ended.abort());
      this.#note(`You are @${session.handle}. /help shows what you can write.`);
      try {
        await this.#readLines(session, ended.signal);
      } finally {
        // Its open stream would keep the process.
        await session.close();
      }
      const { reason } = await session.closed;
      if (reason === 'closed') {
        leaving.signal.throwIfAborted();
        if (this.#failures === 0) return;
        const lines = this.#failures === 1 ? '1 line' : `${this.#failures} lines`;
        throw new CliError('not_sent', `${lines} failed; see the errors above`);
      }
      throw reason === 'released'
        ? new CliError('session_released', `The session @${session.handle} was released`)
        : new CliError(
            'session_lost',
            `@${session.handle} was joined elsewhere, or its key was revoked`,
            {
              exit: exitCodes.conflict,
            },
          );
    } finally {
      process.off('SIGINT', interrupt);
      this.#terminal.close();
    }
  }

  #serve(
    { handle, name = handle, takeover }: SessionChatOptions,
    signal: AbortSignal,
  ): Promise<RemoteSession> {
    return this.#client.sessions.serve({
      handle,
      identity: { kind: 'human', name },
      capabilities: { messaging: { attachments: ['text', 'image'] } },
      ...(takeover === undefined ? {} : { takeover }),
      onMessage: (message) => this.#show(message),
      onRelease: () => undefined,
      signal,
      onWaiting: (text) => this.#note(text),
      onError: (error) => this.#fail(error),
      onDisconnect: ({ attempt }) => {
        if (attempt === 1) this.#note('The connection broke; connecting again …');
      },
      onReconnect: () => this.#note('Connected again.'),
    });
  }

  async #readLines(session: RemoteSession, signal: AbortSignal): Promise<void> {
    for (;;) {
      let line: string | undefined;
      this.#addressee = this.#partner;
      try {
        line = await this.#terminal.ask({ prompt: this.#prompt, signal });
      } catch (error) {
        if (error instanceof Interrupted || signal.aborted) return;
        throw error;
      }
      const text = line?.trim();
      if (text === undefined || text === '/quit') return;
      if (text !== '') await this.#try(session, text, signal);
    }
  }

  get #prompt(): string {
    if (!this.#terminal.isInteractive) return '';
    return `${this.#context.print.paint('bold', this.#partner ?? 'to?')} › `;
  }

  /** A line that fails does not end the chat; a script exits with an error in the end. */
  async #try(session: RemoteSession, text: string, signal: AbortSignal): Promise<void> {
    try {
      await this.#obey(session, text, signal);
    } catch (error) {
      if (signal.aborted) return;
      this.#fail(error);
      if (!this.#terminal.isInteractive) this.#failures += 1;
    }
  }

  async #obey(session: RemoteSession, text: string, signal: AbortSignal): Promise<void> {
    if (text === '/help') for (const line of help) this.#note(line);
    else if (text === '/who') await this.#listSessions(session);
    else if (text.startsWith('/')) this.#note(`There is no ${text}; /help shows what there is`);
    else await this.#send(session, text, signal);
  }

  async #listSessions(session: RemoteSession): Promise<void> {
    for await (const { identity, status } of session.peers()) {
      if (status === 'released') continue;
      const isSelf = identity.handle === session.handle ? ' (you)' : '';
      this.#note(`@${identity.handle}${isSelf}  ${identity.kind}, ${status}`);
    }
  }

  async #send(session: RemoteSession, line: string, signal: AbortSignal): Promise<void> {
    const [, address, rest = ''] = /^([@#]\S+)\s*(.*)$/s.exec(line) ?? [];
    const to = address ?? this.#addressee;
    const text = address === undefined ? line : rest;
    if (to === undefined) {
      throw new CliError('no_recipient', 'Whom to? Begin with @handle or #channel');
    }
    // An address alone selects the partner.
    const { deliveries } =
      text === '' ? { deliveries: [] } : await session.send({ to, text }, { signal });
    this.#partner = to;
    for (const { handle, error } of deliveries) {
      if (error !== undefined) this.#note(`@${handle} did not get it: ${error.message}`);
    }
  }

  #show(message: ReceivedMessage): void {
    const { print } = this.#context;
    const { from, to, text, attachments, redelivered } = message;
    const sender = from.type === 'session' ? `@${from.name}` : from.name;
    const channel = [to].flat().find((address) => address.startsWith('#'));
    this.#partner = channel ?? (from.type === 'session' ? sender : this.#partner);
    if (!this.#terminal.isInteractive || this.#terminal.replacePrompt(this.#prompt)) {
      this.#addressee = this.#partner;
    }
    if (print.json) {
      print.value(message);
      return;
    }
    const place = channel === undefined ? '' : ` in ${channel}`;
    const mark = redelivered ? ` ${print.paint('dim', '(again)')}` : '';
    const head = `${print.paint('cyan', escapeUnsafe(sender))}${place}${mark}`;
    const parts = [text, ...attachments.map(attachmentText)].filter((part) => part !== '');
    this.#terminal.writeAbove(() => print.raw(`${head}: ${escapeUnsafe(parts.join('\n'))}\n`));
  }

  /** What is not a message: above the prompt, or on standard error. */
  #note(text: string): void {
    const { print } = this.#context;
    if (!this.#terminal.isInteractive) print.note(text);
    else this.#terminal.writeAbove(() => print.raw(`${print.paint('dim', escapeUnsafe(text))}\n`));
  }

  #fail(error: unknown): void {
    const { error: text, code, hint } = failureOf(error);
    this.#note(`✗ ${text} [${code}]${hint === undefined ? '' : ` – ${hint}`}`);
  }
}

function attachmentText(attachment: ReceivedMessage['attachments'][number]): string {
  if (attachment.type === 'text') return attachment.text;
  return `[image ${attachment.url ?? attachment.mediaType ?? ''}]`;
}
