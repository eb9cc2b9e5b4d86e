/*
 * What a pattern means for a path: whole components, after `.`, `..` and doubled slashes are gone.
 *
 * Only the text is read here. Where a link leads is for whoever can look: `allowsPath` is then to be
 * asked once more with the path that was found, and again when the call is dispatched.
 */
import { compileGlob } from './glob/glob.ts';

const EVERYTHING: ReadonlySet<string> = new Set(['*', '**']);
const GROUP_OPENERS = '{(@+';

/** Whether the path as it is meant lies where the pattern says. The raw text is matched elsewhere. */
export function allowsPath(pattern: string, text: string): boolean {
  if (!isReadablePath(text)) return false;
  const path = normalisePath(text);
  const front = afterOpeners(withoutDot(pattern));
  if (climbs(path) > climbs(front)) return false;
  // `*.ts` speaks about this folder, though its star would also take the slash of `/etc/x.ts`.
  if (path.startsWith('/') && !front.startsWith('/') && !EVERYTHING.has(pattern)) return false;
  const glob = compileGlob(withoutDot(pattern));
  return glob.matches(path) || (text.endsWith('/') && glob.matches(`${path}/`));
}

/** Whether a deny pattern speaks about any reading of the path. */
export function deniesPath(pattern: string, text: string): boolean {
  const wide = text.replaceAll('\\', '/');
  const readings = [text, wide, wide.replaceAll('\0', ''), wide.split('\0', 1)[0]!];
  const globs = [compileGlob(pattern, 'deny'), compileGlob(withoutDot(pattern), 'deny')];
  return readings.some((reading) => {
    const path = normalisePath(reading);
    return globs.some((glob) => glob.matches(path) || glob.matches(`${path}/`));
  });
}

/** A backslash, a tilde in front or a control character mean different things to different tools. */
export function isReadablePath(text: string): boolean {
  return text !== '' && !text.startsWith('~') && !/[\\\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u.test(text);
}

/** A place below a root, as a path that starts there. */
export function withinRoot(root: string, place: string): string {
  if (place === root) return '.';
  const folder = root.endsWith('/') ? root : `${root}/`;
  return place.startsWith(folder) ? place.slice(folder.length) : place;
}

/** Whether two paths are the same once they are normalised. */
export function samePath(one: string, other: string): boolean {
  return normalisePath(one) === normalisePath(other);
}

function normalisePath(text: string): string {
  const absolute = text.startsWith('/');
  const parts: string[] = [];
  for (const part of text.split('/')) {
    if (part === '' || part === '.') continue;
    const last = parts.at(-1);
    if (part !== '..') parts.push(part);
    else if (last !== undefined && last !== '..') parts.pop();
    else if (!absolute) parts.push(part);
  }
  if (absolute) return `/${parts.join('/')}`;
  return parts.length === 0 ? '.' : parts.join('/');
}

function withoutDot(pattern: string): string {
  let at = 0;
  while (pattern.startsWith('./', at)) at += 2;
  return at === pattern.length ? pattern : pattern.slice(at);
}

function afterOpeners(pattern: string): string {
  let at = 0;
  while (at < pattern.length && GROUP_OPENERS.includes(pattern[at]!)) at += 1;
  return pattern.slice(at);
}

function climbs(path: string): number {
  let count = 0;
  while (path.startsWith('../', count * 3)) count += 1;
  return path.slice(count * 3) === '..' ? count + 1 : count;
}
