import type { IncomingMessage } from 'node:http';
import { uuidv7 } from 'uuidv7';

/** The caller's own name for its request if it is a plain one, else a new id. */
export function requestIdOf({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' && /^[\w.:~/@+=-]{1,128}$/.test(given) ? given : uuidv7();
}
