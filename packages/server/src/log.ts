import type { Log } from '@relay/core';

type Write = (line: string) => void;

/** One JSON object a line, on standard error. */
export function createLog(write: Write = (line) => process.stderr.write(line)): Log {
  const log =
    (level: 'warn' | 'error') =>
    (message: string, fields: Readonly<Record<string, unknown>> = {}) =>
      write(`${JSON.stringify({ at: new Date().toISOString(), level, message, ...fields })}\n`);
  return { warn: log('warn'), error: log('error') };
}
