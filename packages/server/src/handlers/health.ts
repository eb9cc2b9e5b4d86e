import { RelayError } from '@relay/protocol';
import type { PublicHandler } from './handler.ts';

export const health: PublicHandler = async ({ version }) => ({ status: 'ok', version });

export const ready: PublicHandler = async ({ isStopping, store }) => {
  if (isStopping()) throw new RelayError('shutting_down', 'The server is shutting down');
  await store.ping();
  return { status: 'ready' };
};
