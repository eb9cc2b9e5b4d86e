/** What every process of a benchmark does: listen, report where, and report what it uses when asked. */
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';

export type Question = 'cpu';

export interface Report {
  readonly port?: number;
  readonly apiKey?: string;
  readonly cpuMs?: number;
}

export function announce(server: Server): void {
  server.listen(0, '127.0.0.1', () => {
    reportPort((server.address() as AddressInfo).port);
  });
}

export function reportPort(port: number, apiKey = ''): void {
  process.on('message', () => {
    const { user, system } = process.cpuUsage();
    report({ cpuMs: (user + system) / 1000 });
  });
  process.on('disconnect', () => process.exit(0));
  report({ port, apiKey });
}

function report(message: Report): void {
  process.send?.(message);
}
