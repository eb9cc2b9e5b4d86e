/** Two machines on one cable, as network namespaces: the only honest way to let a peer vanish. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';

/** Why this machine cannot; undefined if it can. */
export function whyNoNetworks(): string | undefined {
  if (process.platform !== 'linux') return 'this is not Linux';
  if (process.getuid?.() !== 0) return 'creating a network namespace requires root';
  try {
    execFileSync('unshare', ['-n', 'ip', 'link', 'show'], { stdio: 'ignore' });
    return undefined;
  } catch {
    return 'network namespaces are not permitted';
  }
}

export class TwoNetworks {
  readonly here: ChildProcess;
  readonly there: ChildProcess;
  readonly address = '10.77.0.1';

  constructor() {
    // A namespace lives as long as a process is in it.
    [this.here, this.there] = [hold(), hold()];
    const peer = ['netns', String(this.there.pid)];
    for (const { pid } of [this.here, this.there]) untilApart(pid);
    this.run(this.here, 'ip', 'link', 'add', 'cable', 'type', 'veth', 'peer', 'cable', ...peer);
    for (const [side, address] of [
      [this.here, this.address],
      [this.there, '10.77.0.2'],
    ] as const) {
      this.run(side, 'ip', 'addr', 'add', `${address}/24`, 'dev', 'cable');
      this.run(side, 'ip', 'link', 'set', 'lo', 'up');
      this.run(side, 'ip', 'link', 'set', 'cable', 'up');
    }
  }

  /** What to spawn so that a command runs on one side. */
  on(side: ChildProcess, ...command: readonly string[]): [string, string[]] {
    return ['nsenter', ['-t', String(side.pid), '-n', ...command]];
  }

  run(side: ChildProcess, ...command: readonly string[]): string {
    const [file, args] = this.on(side, ...command);
    return execFileSync(file, args, { encoding: 'utf8' });
  }

  /** Packets are dropped silently from now on. */
  pullTheCable(): void {
    this.run(this.there, 'ip', 'link', 'set', 'cable', 'down');
  }

  remove(): void {
    for (const side of [this.here, this.there]) side.kill('SIGKILL');
  }
}

function hold(): ChildProcess {
  return spawn('unshare', ['-n', 'sleep', '600'], { stdio: 'ignore' });
}

/** `unshare` needs a moment to become the one who sleeps. */
function untilApart(pid: number | undefined): void {
  for (;;) {
    const name = execFileSync('cat', [`/proc/${pid}/comm`], { encoding: 'utf8' }).trim();
    if (name === 'sleep') return;
  }
}
