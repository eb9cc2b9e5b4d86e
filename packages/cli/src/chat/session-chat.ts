/**
 * A person's session in a terminal or a pipe: shows messages as they come, and sends lines. A message is
 * consumed when it was shown. A line without an address goes to whom the person wrote to, or who wrote to
 * the person, last; on a terminal to whom the prompt shows, which does not change while the person types.
 */
import type { ReceivedMessage, RelayClient, RemoteSession } from '@relay/sdk';
import type { Context } from '../command.ts';
import { CliError, exitCodes, failureOf, isApiError } from '../errors.ts';
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

/** A handle stays in use for that long after its person left. */
const inUseMs = 30_000;
const retryMs = 2_000;

export class SessionChat {
  readonly #context: Context;
  readonly #client: RelayClient;
  readonly #terminal: Terminal;
  /** Of the next prompt. */
  #partner: string | undefined;
  /** Of the prompt that is shown. */
  #addressee: string | undefined;

  constructor(context: Context, client: RelayClient) {
    const { environment, print } = context;
    const { stdout, stderr } = environment;
    this.#context = context;
    this.#client = client;
    this.#terminal = new Terminal(environment, print.json ? stderr : stdout);
  }

  async run(options: SessionChatOptions): Promise<void> {
    this.#partner = options.to;
    const interrupt = () => this.#terminal.interrupt();
    process.on('SIGINT', interrupt);
    try {
      const session = await this.#join(options);
      const ended = new AbortController();
      void session.closed.then(() => ended.abort());
      this.#note(`You are @${session.handle}. /help shows what you can write.`);
      await this.#readLines(session, ended.signal);
      const { reason } = await session.close();
      if (reason === 'closed') return;
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

  /** Waits until the handle is free if the person has just left. */
  async #join(options: SessionChatOptions): Promise<RemoteSession> {
    const deadline = Date.now() + inUseMs + retryMs;
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await this.#serve(options);
      } catch (error) {
        const isTaken = isApiError(error) && error.code === 'handle_taken';
        if (!isTaken || Date.now() > deadline || !(await this.#isOwn(options.handle))) throw error;
        if (attempt === 0) {
          this.#context.print.note(
            `@${options.handle} was in use within the last 30 s; waiting until it is free …`,
          );
        }
        await new Promise((resolve) => setTimeout(resolve, retryMs));
      }
    }
  }

  /** Whether the session with the handle belongs to the owner of the key. */
  async #isOwn(handle: string): Promise<boolean> {
    const { sessions, keys } = this.#client;
    const { id, owner = id } = await keys.current();
    for await (const session of sessions.list({ harness: 'human' })) {
      if (session.identity.handle === handle && session.releasedAt === undefined) {
        return session.owner === owner;
      }
    }
    return false;
  }

  #serve({ handle, name = handle, takeover }: SessionChatOptions): Promise<RemoteSession> {
    return this.#client.sessions.serve({
      handle,
      identity: { kind: 'human', name },
      capabilities: { messaging: { attachments: ['text', 'image'] } },
      ...(takeover === undefined ? {} : { takeover }),
      onMessage: (message) => this.#show(message),
      onRelease: () => undefined,
      onError: (error) => this.#fail(error),
      onDisconnect: ({ attempt }) => {
        if (attempt === 1) this.#note('The connection broke; connecting again …');
      },
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
      if (text !== '') await this.#obey(session, text);
    }
  }

  get #prompt(): string {
    if (!this.#terminal.isInteractive) return '';
    return `${this.#context.print.paint('bold', this.#partner ?? 'to?')} › `;
  }

  async #obey(session: RemoteSession, text: string): Promise<void> {
    if (text === '/help') for (const line of help) this.#note(line);
    else if (text === '/who') await this.#listSessions(session);
    else if (text.startsWith('/')) this.#note(`There is no ${text}; /help shows what there is`);
    else await this.#send(session, text);
  }

  async #listSessions(session: RemoteSession): Promise<void> {
    for await (const { identity, status } of session.peers()) {
      if (status === 'released') continue;
      const isSelf = identity.handle === session.handle ? ' (you)' : '';
      this.#note(`@${identity.handle}${isSelf}  ${identity.kind}, ${status}`);
    }
  }

  async #send(session: RemoteSession, line: string): Promise<void> {
    const [, address, rest = ''] = /^([@#]\S+)\s*(.*)$/s.exec(line) ?? [];
    const to = address ?? this.#addressee;
    const text = address === undefined ? line : rest;
    if (to === undefined) {
      this.#fail(new CliError('no_recipient', 'Whom to? Begin with @handle or #channel'));
      return;
    }
    try {
      // An address alone selects the partner.
      const { deliveries } = text === '' ? { deliveries: [] } : await session.send({ to, text });
      this.#partner = to;
      for (const { handle, error } of deliveries) {
        if (error !== undefined) this.#note(`@${handle} did not get it: ${error.message}`);
      }
    } catch (error) {
      // A script ends with the error; a person can write again.
      if (!this.#terminal.isInteractive || !isApiError(error)) throw error;
      this.#fail(error);
    }
  }

  #show(message: ReceivedMessage): void {
    const { print } = this.#context;
    const { from, to, text, mode, attachments, redelivered } = message;
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
    const marks = [mode, ...(redelivered ? ['again'] : [])].join(', ');
    const head = `${print.paint('cyan', escapeUnsafe(sender))}${place} ${print.paint('dim', `(${marks})`)}`;
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
