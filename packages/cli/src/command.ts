/** The base of all commands: help with examples, and a context for their handlers. */
import type { Listing, RelayClient } from '@relay/sdk';
import { Command, type ErrorOptions, type HelpContext } from 'commander';
import { type Connection, clientFor, connectionOf, rejectedKey } from './connection.ts';
import type { CliEnvironment } from './environment.ts';
import { CliError, exitCodes, isApiError } from './errors.ts';
import type { IdKind } from './ids.ts';
import { installationOf } from './local-server.ts';
import { Print } from './output/print.ts';

export interface SharedOptions {
  readonly json?: boolean;
  readonly url?: string;
  readonly profile?: string;
}

export class Context<Options extends object = object> {
  readonly environment: CliEnvironment;
  readonly print: Print;
  readonly options: Options & SharedOptions;

  constructor(environment: CliEnvironment, options: Options & SharedOptions) {
    this.environment = environment;
    this.options = options;
    this.print = new Print(environment, options.json === true);
  }

  get connection(): Connection {
    return connectionOf(this.environment, this.options);
  }

  /** The installation on this machine, for commands that work on its data folder. */
  installation(dataDir?: string): Promise<CliEnvironment> {
    return installationOf(this.environment, this.options, dataDir);
  }

  /** The settings of a server that would be started in this folder, whose `.env` it reads. */
  async settings(dataDir?: string): Promise<Pick<CliEnvironment, 'env' | 'cwd'>> {
    const { settingsOf } = await import('@relay/server/operator');
    const { env, cwd } = this.environment;
    const settings = settingsOf({ env, cwd });
    return {
      cwd,
      env: dataDir === undefined ? settings : { ...settings, RELAY_DATA_DIR: dataDir },
    };
  }

  async client(): Promise<RelayClient> {
    const { connection } = this;
    const client = await clientFor(connection);
    if (connection.apiKey !== undefined) return client;
    // A server that has just started is found now that it responds, and so is its key.
    await client.health();
    return clientFor(this.connection);
  }

  /** Fails if no server responds. */
  async respondingClient(): Promise<RelayClient> {
    const client = await this.client();
    await client.health();
    return client;
  }

  /** A page of a list. A person also wants to know how many items there are. */
  page(limit: number): { readonly limit: number; readonly count?: 'true' } {
    const isForPerson = this.environment.stdout.isTTY === true && !this.print.json;
    return { limit: pageSize(limit), ...(isForPerson ? { count: 'true' } : {}) };
  }

  /** The id that the person means: whole, a part of it, `latest`, or chosen from a list. */
  async id(kind: IdKind, given: string | undefined): Promise<string> {
    const { resolveId } = await import('./ids.ts');
    return resolveId(this, kind, given);
  }

  /** The same for an option, which can be left out. */
  async optionalId(kind: IdKind, given: string | undefined): Promise<string | undefined> {
    return given === undefined ? undefined : this.id(kind, given);
  }

  async ids(kind: IdKind, given: readonly string[]): Promise<string[]> {
    const { resolveIds } = await import('./ids.ts');
    return resolveIds(this, kind, given);
  }
}

type Handler<Options extends object> = (
  context: Context<Options>,
  args: readonly string[],
) => Promise<void> | void;

export class CliCommand extends Command {
  readonly #environment: CliEnvironment;

  constructor(environment: CliEnvironment, name?: string) {
    super(name);
    this.#environment = environment;
  }

  override createCommand(name?: string): CliCommand {
    return new CliCommand(this.#environment, name);
  }

  /** Adds examples to the help, and a paragraph below them. */
  examples(lines: readonly string[], after?: string): this {
    const text = lines.map((line) => `  ${line}`).join('\n');
    const paragraph =
      after === undefined ? '' : `\n\n${this.createHelp().boxWrap(after, maxLineLength)}`;
    return this.addHelpText('after', `\nExamples:\n${text}${paragraph}`);
  }

  /**
   * Commander calls this for its command `help`, and if a subcommand is missing. It looks only at the first
   * word after `help`, and does not name a word that is no command.
   */
  override help(): never {
    const asked = [this, this.parent].find((each) => each?.args[0] === 'help');
    if (!asked) return super.help({ error: true });
    let shown: Command = asked;
    for (const word of asked.args) {
      if (word.startsWith('-') || shown.commands.length === 0) break;
      if (word === 'help') continue;
      shown =
        shown.commands.find((each) => each.name() === word) ?? refuseUnknownCommand(shown, word);
    }
    if (shown === this) return super.help();
    shown.args = ['help'];
    return shown.help();
  }

  /** Instead of an argument. */
  get #takesSubcommand(): boolean {
    return this.commands.length > 0 && this.registeredArguments.length === 0;
  }

  /** Commander shows the help of this command for `--help` behind a word that is no subcommand. */
  override helpInformation(context?: HelpContext): string {
    const [word = '-'] = this.args;
    if (this.#takesSubcommand && word !== 'help' && !word.startsWith('-')) {
      refuseUnknownCommand(this, word);
    }
    return super.helpInformation(context);
  }

  /** Commander takes a mistyped subcommand of a command that does something by itself for an argument. */
  override error(message: string, options?: ErrorOptions): never {
    if (options?.code === 'commander.excessArguments' && this.#takesSubcommand) {
      const [word = ''] = this.args;
      return word === 'help' ? this.help() : refuseUnknownCommand(this, word);
    }
    return super.error(message, options);
  }

  /** Sets the handler, which imports the SDK or the server when it needs them. */
  handle<Options extends object>(handler: Handler<Options>): this {
    return this.action(async () => {
      const options = this.optsWithGlobals<Options & SharedOptions>();
      const context = new Context(this.#environment, options);
      try {
        await handler(context, this.args);
      } catch (error) {
        throw withKeyNamed(error, context);
      }
    });
  }
}

/** With commander's message, which names a similar command. Its types lack the method. */
function refuseUnknownCommand(command: Command, name: string): never {
  command.args = [name];
  return (command as Command & { unknownCommand(): never }).unknownCommand();
}

/** The server does not know where a key that it rejects comes from. */
function withKeyNamed(error: unknown, context: Context): unknown {
  if (!isApiError(error) || error.code !== 'unauthorized') return error;
  const { connection } = context;
  const rejected = rejectedKey(connection);
  if (rejected === undefined) return error;
  return new CliError(error.code, `The server at ${connection.url} rejects ${rejected.key}`, {
    exit: exitCodes.notAllowed,
    hint: rejected.hint,
  });
}

const maxLineLength = 80;

/** The largest page that the API returns. */
const maxPageSize = 200;

export function pageSize(limit: number): number {
  return Math.min(limit, maxPageSize);
}

/** The first items of a list, and how many there are. */
export interface Taken<Item> {
  readonly items: readonly Item[];
  readonly hasMore: boolean;
  readonly total?: number | undefined;
  readonly totalIsMinimum?: boolean | undefined;
}

/** The first `limit` items of a listing, over as many pages as needed. */
export async function takeCounted<Item>(
  listing: Listing<Item>,
  limit: number,
): Promise<Taken<Item>> {
  const first = await listing.page();
  const { total, totalIsMinimum } = first;
  const items = [...first.items];
  let { nextCursor } = first;
  while (nextCursor !== null && items.length < limit) {
    const page = await listing.page(nextCursor);
    items.push(...page.items);
    ({ nextCursor } = page);
  }
  const hasMore = nextCursor !== null || items.length > limit;
  return { items: items.slice(0, limit), hasMore, total, totalIsMinimum };
}

/** The same without their number. */
export async function take<Item>(listing: Listing<Item>, limit: number): Promise<Item[]> {
  return [...(await takeCounted(listing, limit)).items];
}
