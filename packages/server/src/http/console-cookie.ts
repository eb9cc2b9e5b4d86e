/** The cookie of the console: the secret of a sign-in, which only the browser and its requests have. */
import type { FastifyReply, FastifyRequest } from 'fastify';

const name = 'relay_console';
const form = new RegExp(`(?:^|;)\\s*${name}=([^;]*)`, 'g');

/**
 * Undefined without the cookie. A page of a sibling domain can add a second one, and then it is unknown
 * which of them is meant: the result is no valid secret.
 */
export function consoleSecretIn({ headers }: Pick<FastifyRequest, 'headers'>): string | undefined {
  const values = [...(headers.cookie ?? '').matchAll(form)].map(([, value = '']) => value.trim());
  return values.length > 1 ? '' : values[0];
}

export interface NewCookie {
  readonly secret: string;
  readonly maxAgeSeconds: number;
  /** Only over https. */
  readonly secure: boolean;
}

export function setConsoleCookie(reply: FastifyReply, cookie: NewCookie): void {
  const { secret, maxAgeSeconds, secure } = cookie;
  const value = `${name}=${secret}; Path=/; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=Strict`;
  reply.header('set-cookie', secure ? `${value}; Secure` : value);
}

export function clearConsoleCookie(reply: FastifyReply): void {
  setConsoleCookie(reply, { secret: '', maxAgeSeconds: 0, secure: false });
}
