/** A real terminal: a program in tmux, its keys and its screen. */
import { execFileSync, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';

export interface TerminalOptions {
  readonly command: string;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly columns?: number;
}

/** Why there is no terminal here; undefined if there is one. */
export function tmuxProblem(): string | undefined {
  return spawnSync('tmux', ['-V']).status === 0 ? undefined : 'tmux is not installed';
}

export class TmuxTerminal {
  /** A separate tmux server, apart from those of the user. */
  readonly #socket = `relay-test-${randomUUID()}`;
  #isOpen = true;

  constructor({ command, cwd, env, columns = 120 }: TerminalOptions) {
    const set = Object.entries(env).flatMap(([name, value]) => ['-e', `${name}=${value}`]);
    const size = ['-x', String(columns), '-y', '50'];
    this.#tmux('-f', '/dev/null', 'new-session', '-d', ...size, '-c', cwd, ...set, 'bash --norc');
    this.#tmux('set-option', '-g', 'history-limit', '5000');
    this.type(`PS1='$ '; ${command}`);
    this.press('Enter');
  }

  /** All that was on the screen so far. */
  get screen(): string {
    return this.#tmux('capture-pane', '-p', '-J', '-S', '-5000');
  }

  type(text: string): void {
    this.#tmux('send-keys', '-l', '--', text);
  }

  press(...keys: readonly string[]): void {
    this.#tmux('send-keys', ...keys);
  }

  line(text: string): void {
    this.type(text);
    this.press('Enter');
  }

  /** The same with its escape sequences. */
  get colours(): string {
    return this.#tmux('capture-pane', '-p', '-e', '-S', '-5000');
  }

  resize(columns: number): void {
    this.#tmux('resize-window', '-x', String(columns), '-y', '50');
  }

  close(): void {
    if (this.#isOpen) this.#tmux('kill-server');
    this.#isOpen = false;
  }

  #tmux(...args: readonly string[]): string {
    return execFileSync('tmux', ['-L', this.#socket, ...args], {
      encoding: 'utf8',
      env: shellEnvironment(),
    });
  }
}

/** Without the colours, the settings, the servers and the profiles of who runs the tests. */
function shellEnvironment(): Record<string, string | undefined> {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(RELAY_|NO_COLOR$|FORCE_COLOR$)/.test(name),
  );
  return {
    ...Object.fromEntries(kept),
    XDG_STATE_HOME: '/nowhere',
    XDG_CONFIG_HOME: '/nowhere',
  };
}
