import { createHash, timingSafeEqual } from 'node:crypto';

/** Whether an `Authorization` shows the internal secret. How long it takes tells nothing about it. */
export function showsInternalSecret(
  authorization: string | undefined,
  secret: string | undefined,
): boolean {
  const shown = /^Internal (\S+)$/i.exec(authorization ?? '')?.[1];
  if (shown === undefined || secret === undefined) return false;
  return timingSafeEqual(digest(shown), digest(secret));
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
