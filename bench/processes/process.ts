/** What every process of a benchmark does: listen, say where, and tell its CPU time when asked. */
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';

export function announce(server: Server): void {
  server.listen(0, '127.0.0.1', () => {
    tellPort((server.address() as AddressInfo).port);
  });
}

export function tellPort(port: number): void {
  process.on('message', () => {
    const { user, system } = process.cpuUsage();
    process.send?.({ cpuMs: (user + system) / 1000 });
  });
  process.on('disconnect', () => process.exit(0));
  process.send?.({ port });
}
