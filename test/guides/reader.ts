/**
 * Follows a document as a reader would: in a folder of their own, with a running server, one command after
 * the other in bash. `relay` runs in this process, which is faster than a process per command; with
 * `isReal` it is the executable.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { createServer, type Server } from 'node:http';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { join } from 'node:path';
import { createClient, type RelayClient } from '@relay/sdk';
import { type RunningServer, serve } from '@relay/server';
import { relay, relayBin } from '../support/cli.ts';
import { root } from './documents.ts';

type Values = Readonly<Record<string, string>>;

export interface CommandOptions {
  readonly stdin?: string;
  /** A command that does not end by itself is interrupted when it has printed this. */
  readonly until?: RegExp;
  readonly isReal?: boolean;
  /** Environment variables of this command alone. */
  readonly env?: Values;
}

export interface Outcome {
  readonly exit: number | null;
  readonly output: string;
  readonly isInterrupted: boolean;
}

const prelude = `
set -a
trap 'env -0 > "$GUIDE_FOLDER/.guide/env"' EXIT
curl() { command curl --fail-with-body -sS "$@"; }
relay() {
  if [ -n "$GUIDE_REAL" ]; then "$GUIDE_NODE" "$GUIDE_RELAY" "$@"; return; fi
  local files; files=$(mktemp -d)
  cat > "$files/stdin"
  jq -nc '{args: $ARGS.positional, env: env, cwd: env.PWD, stdin: $stdin}' --rawfile stdin "$files/stdin" --args -- "$@" > "$files/request"
  command curl -s --unix-socket "$GUIDE_FOLDER/.guide/cli" http://cli/ -d "@$files/request" > "$files/outcome"
  jq -j .out "$files/outcome"
  jq -j .err "$files/outcome" >&2
  return "$(jq .code "$files/outcome")"
}
npx() {
  case "$1" in
    relay) shift; relay "$@" ;;
    node) shift; (cd "$GUIDE_ROOT" && "$GUIDE_NODE" --no-warnings "$@") ;;
    *) command npx "$@" ;;
  esac
}
npm() {
  case "$1" in
    start) env -0 > "$GUIDE_FOLDER/.guide/restart" ;;
    run) (cd "$GUIDE_ROOT" && command npm "$@") ;;
    *) command npm "$@" ;;
  esac
}
`;

/** Folders of a reader's machine, which are inside the reader's folder here. */
const folders = /(?<![\w.}])\/(srv|backups|opt\/relay|etc\/relay|var\/lib\/relay)(?![\w])/g;

export class Reader {
  readonly folder: string;
  readonly #settings: Values;
  #values: Record<string, string> = {};
  #server: RunningServer | undefined;
  #cli: Server | undefined;
  #port = '0';

  /** `settings`: environment variables of the server. */
  constructor(settings: Values = {}) {
    // Inside the repository, so that a configuration finds the packages.
    mkdirSync(join(root, '.cache'), { recursive: true });
    this.folder = mkdtempSync(join(root, '.cache', 'guide-'));
    for (const name of ['.guide', 'home', 'srv/projects', 'backups', 'var/lib']) {
      mkdirSync(join(this.folder, name), { recursive: true });
    }
    this.#settings = settings;
  }

  get url(): string {
    return this.#server?.url ?? '';
  }

  get dataDir(): string {
    return join(this.folder, '.relay');
  }

  get client(): RelayClient {
    return createClient({ baseUrl: this.url, apiKey: this.#values['RELAY_API_KEY'] ?? '' });
  }

  /** For variables, and for words such as RUN_ID in later commands. */
  set(values: Values): void {
    Object.assign(this.#values, values);
  }

  value(name: string): string | undefined {
    return this.#values[name];
  }

  write(name: string, content: string): void {
    const path = join(this.folder, name);
    mkdirSync(join(path, '..'), { recursive: true });
    writeFileSync(path, content);
  }

  async open(): Promise<void> {
    await this.restart({});
    const apiKey = readFileSync(join(this.dataDir, 'first-key'), 'utf8').trim();
    this.set({ RELAY_URL: this.url, RELAY_API_KEY: apiKey });
    const cli = createServer((request, response) => {
      void text(request).then(async (body) => {
        const { args, ...options } = JSON.parse(body) as { args: string[] };
        response.end(JSON.stringify(await relay(args, options)));
      });
    });
    this.#cli = cli;
    await new Promise<void>((resolve) => cli.listen(join(this.folder, '.guide/cli'), resolve));
  }

  /** On the same data folder and port. */
  async restart(settings: Values): Promise<void> {
    await this.#server?.stop();
    this.#server = await serve({
      env: {
        ...this.#environment,
        RELAY_PORT: this.#port,
        RELAY_DATA_DIR: this.dataDir,
        RELAY_PROVIDER_ATTEMPTS: '1',
        RELAY_LOG_LEVEL: 'error',
        ...this.#here(this.#settings),
        ...settings,
      },
      cwd: this.folder,
      terminal: false,
      print: () => undefined,
    });
    this.#port = new URL(this.#server.url).port;
  }

  async close(): Promise<void> {
    this.#cli?.closeAllConnections();
    this.#cli?.close();
    await this.#server?.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  get #environment(): Record<string, string> {
    const home = join(this.folder, 'home');
    return {
      PATH: process.env['PATH'] ?? '',
      HOME: home,
      XDG_STATE_HOME: join(home, '.local/state'),
      XDG_CONFIG_HOME: join(home, '.config'),
    };
  }

  #here(values: Values = {}): Values {
    const pairs = Object.entries(values);
    return Object.fromEntries(pairs.map(([name, value]) => [name, this.#inFolder(value)]));
  }

  #inFolder(text: string): string {
    return text.replaceAll(folders, (path) => `${this.folder}${path}`);
  }

  /** The command with the values of this reader. */
  filled(command: string): string {
    const here = this.#inFolder(
      command.replaceAll(/\b(localhost|127\.0\.0\.1):4000\b/g, this.url.replace('http://', '')),
    );
    return here.replaceAll(/(?<![$\w{])([A-Z]+_ID|DIGEST|PID|WEBHOOK_SECRET)(?![\w=])/g, (name) => {
      const value = this.#values[name];
      if (value === undefined) throw new Error(`There is no value for ${name} in: ${command}`);
      return value;
    });
  }

  async run(
    command: string,
    { stdin = '', until, env, isReal = until !== undefined }: CommandOptions = {},
  ): Promise<Outcome> {
    const shell = spawn('bash', ['-c', `${prelude}\n${this.filled(command)}`], {
      cwd: this.#values['PWD'] ?? this.folder,
      detached: true,
      env: {
        ...this.#environment,
        ...this.#values,
        GUIDE_FOLDER: this.folder,
        GUIDE_ROOT: root,
        GUIDE_NODE: process.execPath,
        GUIDE_RELAY: relayBin,
        GUIDE_REAL: isReal ? 'yes' : '',
        RELAY_DATA_DIR: this.dataDir,
        ...this.#here(env),
      },
    });
    shell.stdin.on('error', () => undefined);
    if (until === undefined) shell.stdin.end(stdin);
    else shell.stdin.write(stdin);
    const outcome = await outcomeOf(shell, until);
    // What was interrupted is in the middle of a command, with its variables.
    if (!outcome.isInterrupted) this.#readEnvironment();
    await this.#restartIfAsked();
    return outcome;
  }

  #readEnvironment(): void {
    const kept = variables(join(this.folder, '.guide/env'));
    for (const [name, value] of Object.entries(kept)) {
      if (/^(GUIDE_|BASH_FUNC|_$|SHLVL|RELAY_DATA_DIR)/.test(name)) continue;
      this.#values[name] = value;
    }
  }

  async #restartIfAsked(): Promise<void> {
    const path = join(this.folder, '.guide/restart');
    if (!existsSync(path)) return;
    const settings = Object.entries(variables(path)).filter(
      ([name]) => /^(RELAY|OTEL)_/.test(name) && !/_(DATA_DIR|URL|API_KEY)$/.test(name),
    );
    rmSync(path);
    await this.restart(Object.fromEntries(settings));
  }
}

function variables(path: string): Record<string, string> {
  if (!existsSync(path)) return {};
  const pairs = readFileSync(path, 'utf8')
    .split('\0')
    .filter((pair) => pair.includes('='));
  return Object.fromEntries(
    pairs.map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]),
  );
}

function outcomeOf(shell: ChildProcess, until: RegExp | undefined): Promise<Outcome> {
  const signal = (name: NodeJS.Signals) => {
    try {
      process.kill(-(shell.pid ?? 0), name);
    } catch {
      // It has ended.
    }
  };
  return new Promise((resolve) => {
    let output = '';
    let isInterrupted = false;
    const deadline = setTimeout(() => {
      output += '\n(still running after 45 s)';
      signal('SIGKILL');
    }, 45_000);
    const add = (chunk: Buffer) => {
      output += chunk.toString();
      if (isInterrupted || until === undefined || !until.test(output)) return;
      isInterrupted = true;
      signal('SIGTERM');
    };
    shell.stdout?.on('data', add);
    shell.stderr?.on('data', add);
    shell.on('close', (exit) => {
      clearTimeout(deadline);
      resolve({ exit, output, isInterrupted });
    });
  });
}
