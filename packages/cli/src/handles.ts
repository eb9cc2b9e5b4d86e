/** Sessions by the name that a person gives them. */
import { nearestTo } from '@relay/protocol/display';
import type { Session } from '@relay/sdk';
import type { Context } from './command.ts';
import { CliError, exitCodes, failureOf } from './errors.ts';
import { isPartOfId } from './ids.ts';
import { isId } from './output/short-id.ts';
import { relay } from './environment.ts';

/** By the handle that people know, or by id. A session that is not released comes first. */
export async function findSession(context: Context, named: string | undefined): Promise<Session> {
  const { sessions } = await context.client();
  if (named === undefined || named === 'latest' || isId(named)) {
    return sessions.get(await context.id('session', named));
  }
  const handle = named.replace(/^@/, '');
  const [found] = isHandle(handle) ? (await sessions.list({ handle }).page()).items : [];
  if (found !== undefined) return found;
  if (!isPartOfId(named)) throw await noSession(context, handle);
  const id = await context.id('session', named).catch(async (error: unknown) => {
    const { code } = failureOf(error);
    throw code === 'not_found' ? await noSession(context, handle) : error;
  });
  return sessions.get(id);
}

function isHandle(text: string): boolean {
  return /^[A-Za-z0-9][\w.-]{0,63}$/.test(text);
}

/** Says which handles are like it, or which there are. */
async function noSession(context: Context, handle: string): Promise<CliError> {
  const { sessions } = await context.client();
  const { items } = await sessions.list({ limit: 200 }).page();
  const open = items.filter(({ status }) => status !== 'released');
  const handles = open.map(({ identity }) => identity.handle);
  const near = nearest(handle, handles);
  return new CliError('not_found', `No session has the handle ${handle}`, {
    exit: exitCodes.notFound,
    hint:
      near.length > 0
        ? `did you mean ${near.map((each) => `@${each}`).join(', ')}?`
        : `"${relay} sessions list" shows all; "${relay} sessions start HANDLE" starts one`,
  });
}

/** The handle that differs in few characters, and those that contain it or are contained in it. */
function nearest(handle: string, handles: readonly string[]): readonly string[] {
  const wanted = handle.toLowerCase();
  const byName = new Map(handles.map((each) => [each.toLowerCase(), each]));
  const names = [...byName.keys()];
  const alike = names.filter((name) => name.includes(wanted) || wanted.includes(name));
  const meant = nearestTo(wanted, names, Math.max(1, Math.floor(wanted.length / 3)));
  return [...new Set([...(meant === undefined ? [] : [meant]), ...alike])]
    .slice(0, 5)
    .flatMap((name) => byName.get(name) ?? []);
}
