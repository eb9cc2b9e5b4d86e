/** What every process of a benchmark does: listen, report where, and report what it uses when asked. */
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

export type Question = 'cpu' | 'heap';

export interface Report {
  readonly port?: number;
  readonly apiKey?: string;
  readonly cpuMs?: number;
  readonly heapBytes?: number;
  readonly toolStart?: ToolStart;
}

export interface ToolStart {
  /** By the clock of the machine. */
  readonly atMs: number;
  /** The same for each start of the same call. */
  readonly call: string;
}

/** The same in all processes of a machine. */
export function machineMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

export function reportToolStart(call: string): void {
  report({ toolStart: { atMs: machineMs(), call } });
}

export function announce(server: Server): void {
  server.listen(0, '127.0.0.1', () => {
    announcePort((server.address() as AddressInfo).port);
  });
}

export function announcePort(
  port: number,
  apiKey = '',
  stop: () => Promise<void> = async () => undefined,
): void {
  process.on('message', (question: Question) => void answer(question));
  process.on('disconnect', () => void stop().finally(() => process.exit(0)));
  report({ port, apiKey });
}

async function answer(question: Question): Promise<void> {
  switch (question) {
    case 'cpu': {
      const { user, system } = process.cpuUsage();
      report({ cpuMs: (user + system) / 1000 });
      return;
    }
    case 'heap':
      // What one collection finds may free more in the next. The last resort also drops compiled code,
      // whose size depends on what was optimized lately.
      for (let n = 0; n < 4; n += 1) {
        await pause(50);
        globalThis.gc?.({ type: 'major', execution: 'sync', flavor: 'last-resort' });
      }
      report({ heapBytes: process.memoryUsage().heapUsed });
  }
}

function report(message: Report): void {
  process.send?.(message);
}
