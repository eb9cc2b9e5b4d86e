/** MCP servers for tests, and what they have done. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url));

export class McpFixture {
  readonly dir = mkdtempSync(join(tmpdir(), 'relay-mcp-'));
  readonly trace = join(this.dir, 'trace');

  /** The tool server as a program. */
  program(asks: 'during' | 'instead', askingMs = 60_000) {
    const args = ['--no-warnings', here('program.ts'), asks, this.trace, String(askingMs)];
    return { command: process.execPath, args };
  }

  /** A program that violates the protocol; see `hostile.ts`. */
  hostile(how: string) {
    return {
      command: process.execPath,
      args: ['--no-warnings', here('hostile.ts'), how, this.trace],
    };
  }

  /** What the servers have done. */
  traces(): string[] {
    try {
      return readFileSync(this.trace, 'utf8').trimEnd().split('\n');
    } catch {
      return [];
    }
  }

  dispose(): void {
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** A zombie process is not alive. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    const stat = process.platform === 'linux' ? readFileSync(`/proc/${pid}/stat`, 'utf8') : '';
    return !stat.slice(stat.lastIndexOf(')')).startsWith(') Z');
  } catch {
    return false;
  }
}
