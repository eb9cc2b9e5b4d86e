/** Signing in to the console and out, and login links. */
import { auditRecordsOf, type AuditFact, type KeyRecord, type NewAuditEntry } from '@relay/core';
import { type AuditAction, RelayError } from '@relay/protocol';
import { deleteFirstKeyFile, hashApiKey, makeSecret } from '../../../secrets/keys.ts';
import { issueLink, linkUrl, newSignIn, signInEnd } from '../../../secrets/sign-ins.ts';
import { attemptWithinLimits } from '../../attempts.ts';
import { callerWith, findValidKey, type FoundKey, rejectForeignPage } from '../../auth.ts';
import { clearConsoleCookie, consoleSecretIn, setConsoleCookie } from '../../console-cookie.ts';
import { unauthorized, unknownLink } from '../../errors.ts';
import { iso } from '../../views/pagination.ts';
import {
  type ApiRequest,
  type Handler,
  type ServerContext,
  type SignInHandler,
  storeOf,
} from '../handler.ts';
import { presentCurrentKey } from './keys.ts';

export const loginToConsole: SignInHandler<'loginToConsole'> = async (call) => {
  const { context, request, reply, body } = call;
  const { config } = context;
  // A foreign page must not sign a person in as somebody else.
  rejectForeignPage(request, config, { requireOrigin: false });
  const secret = makeSecret('console');
  const presented = body.link ?? `Bearer ${body.apiKey}`;
  const { key, apiKey } = await attemptWithinLimits(context, presented, { request, reply }, () =>
    signIn(call, secret),
  );
  // The browser forgets the cookie that it had, so that nobody could end that sign-in any more.
  const previous = consoleSecretIn(request);
  if (previous !== undefined) await endSignIn(context, previous).catch(ignoreUnauthorized);
  const { expiresAt } = key;
  const origin = request.headers.origin ?? config.publicUrl ?? '';
  setConsoleCookie(reply, {
    secret,
    maxAgeSeconds: Math.ceil(((expiresAt ?? Infinity) - Date.now()) / 1000),
    secure: origin.startsWith('https:'),
  });
  await deleteFirstKeyFile(context.store, config.dataDir, apiKey.id);
  return presentCurrentKey(context, callerWith(apiKey), key);
};

type Login = Parameters<SignInHandler<'loginToConsole'>>[0];

async function signIn({ context, reply, body }: Login, secret: string): Promise<FoundKey> {
  if (body.link !== undefined) return signInByLink(context, body.link, secret);
  const { apiKey } = await findValidKey(body.apiKey ?? '', 'api', context);
  context.rates.requests.check(apiKey.id, reply);
  return signInByKey(context, apiKey, secret);
}

async function signInByKey(
  context: ServerContext,
  apiKey: KeyRecord,
  secret: string,
): Promise<FoundKey> {
  const { ids, clock } = context.control.engine;
  const now = clock.now();
  const own = { id: ids.next(), createdAt: now, expiresAt: signInEnd(apiKey, now) };
  const key = newSignIn(apiKey, { ...own, kind: 'console' });
  const audit = auditOf(context, apiKey, 'console.signed-in', { keyId: key.id, by: 'key' });
  await context.store.addKey(key, hashApiKey(secret), audit);
  return { key, apiKey };
}

async function signInByLink(
  context: ServerContext,
  presented: string,
  secret: string,
): Promise<FoundKey> {
  const { key: link, apiKey } = await findValidKey(presented, 'link', context).catch(
    (error: unknown) => {
      throw isUnauthorized(error) ? unknownLink() : error;
    },
  );
  const expiresAt = signInEnd(apiKey, context.control.engine.clock.now());
  const audit = auditOf(context, apiKey, 'console.signed-in', { keyId: link.id, by: 'link' });
  const isFirst = await context.store.redeemLink(
    {
      tenantId: link.tenantId,
      linkHash: hashApiKey(presented),
      hash: hashApiKey(secret),
      expiresAt,
    },
    audit,
  );
  if (!isFirst) throw unknownLink();
  return { key: { ...link, kind: 'console', expiresAt }, apiKey };
}

/** An entry of the person who signs in or out. */
function auditOf(
  { control: { engine } }: Pick<ServerContext, 'control'>,
  apiKey: KeyRecord,
  action: AuditAction,
  what: Readonly<Record<string, AuditFact>>,
): NewAuditEntry[] {
  const { tenantId, actor: who } = callerWith(apiKey);
  return auditRecordsOf(engine, tenantId, [
    { at: engine.clock.now(), who, action, what, why: null },
  ]);
}

/** Succeeds also for a sign-in that has ended. */
export const logoutOfConsole: SignInHandler<'logoutOfConsole'> = async (call) => {
  const { context, request, reply } = call;
  const secret = consoleSecretIn(request);
  rejectForeignPage(request, context.config, { requireOrigin: secret !== undefined });
  clearConsoleCookie(reply);
  if (secret === undefined) return;
  await attemptWithinLimits(context, secret, { request, reply }, () =>
    endSignIn(context, secret),
  ).catch(ignoreUnauthorized);
};

async function endSignIn(context: ServerContext, secret: string): Promise<void> {
  const { key, apiKey } = await findValidKey(secret, 'console', context);
  const audit = auditOf(context, apiKey, 'console.signed-out', { keyId: key.id });
  const { clock } = context.control.engine;
  await context.store.tenant(key.tenantId).revokeKey(key.id, clock.now(), audit);
  context.streams.closeByKey(key.id);
}

function ignoreUnauthorized(error: unknown): void {
  if (!isUnauthorized(error)) throw error;
}

function isUnauthorized(error: unknown): boolean {
  return error instanceof RelayError && error.code === 'unauthorized';
}

/** Only with an API key: a cookie must not be able to outlive itself. */
export const createConsoleLink: Handler<'createConsoleLink'> = async (call) => {
  const { context, caller } = call;
  const apiKey = await storeOf(call).readKey(caller.actor.id);
  if (apiKey === undefined) throw unauthorized();
  const { token, expiresAt } = await issueLink(
    context.store,
    context.control.engine,
    apiKey,
    (what) => auditOf(context, apiKey, 'console.link-created', what),
  );
  return { url: linkUrl(addressOf(call), token), expiresAt: iso(expiresAt) };
};

/** The public URL, else the address that the client used. */
function addressOf({ context, request }: ApiRequest): string {
  const { publicUrl } = context.config;
  // It has no effect but on the URL that its own sender gets.
  const isHttps = request.headers['x-forwarded-proto'] === 'https';
  return publicUrl ?? `${isHttps ? 'https' : 'http'}://${request.headers.host ?? 'localhost'}`;
}
