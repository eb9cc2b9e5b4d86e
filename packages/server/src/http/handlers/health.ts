import { RelayError } from '@relay/protocol';
import type { PublicHandler } from './handler.ts';

/** For whoever only has the address. */
export const welcome: PublicHandler = async ({ version }) => ({
  name: 'Relay',
  version,
  docs: '/docs',
  openapi: '/openapi.json',
  health: '/health',
});

export const health: PublicHandler = async ({ version }) => ({ status: 'ok', version });

export const ready: PublicHandler = async ({ isStopping, store }) => {
  if (isStopping()) throw new RelayError('shutting_down', 'The server is shutting down');
  await store.ping();
  return { status: 'ready' };
};
