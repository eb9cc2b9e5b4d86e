/*
 * How a pattern matches a path: by whole components, after `.`, `..` and double slashes are removed.
 *
 * Only the text is read here. The caller that can resolve links must call `allowsPath` again with the
 * resolved path, and once more when the call is dispatched.
 */
import { compileGlob } from './glob/glob.ts';
import { spendSteps } from './step-budget.ts';

const EVERYTHING: ReadonlySet<string> = new Set(['*', '**']);
const GROUP_OPENERS = '{(@+';
/** What it costs to check and normalize a character. */
const READING_STEPS = 6;

/** Whether the normalized path matches the pattern. The caller has matched the raw text. */
export function allowsPath(pattern: string, text: string): boolean {
  spendSteps(READING_STEPS * text.length);
  if (!isReadablePath(text)) return false;
  const path = normalizePath(text);
  const start = withoutOpeningGroups(withoutLeadingDot(pattern));
  if (countParentSegments(path) > countParentSegments(start)) return false;
  // `*.ts` is about this folder, although its star would also match `/etc/x.ts`.
  if (path.startsWith('/') && !start.startsWith('/') && !EVERYTHING.has(pattern)) return false;
  const glob = compileGlob(withoutLeadingDot(pattern));
  return glob.matches(path) || (text.endsWith('/') && glob.matches(`${path}/`));
}

/** The interpretations of a path that deny patterns are matched against. */
export function pathReadings(text: string): readonly string[] {
  spendSteps(4 * READING_STEPS * text.length);
  const slashed = text.replaceAll('\\', '/');
  const readings = [text, slashed, slashed.replaceAll('\0', ''), slashed.split('\0', 1)[0]!];
  return [...new Set(readings.map(normalizePath))];
}

/** Whether a deny pattern matches any interpretation of the path, also as a folder. */
export function deniesPath(pattern: string, readings: readonly string[]): boolean {
  const bare = withoutLeadingDot(pattern);
  const globs = (bare === pattern ? [pattern] : [pattern, bare]).map((each) =>
    compileGlob(each, 'deny'),
  );
  return readings.some((path) => globs.some((glob) => glob.matches(path, '/')));
}

/** Tools differ in how they read backslashes, a leading tilde and control characters. */
export function isReadablePath(text: string): boolean {
  return text !== '' && !text.startsWith('~') && !/[\\\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u.test(text);
}

/** A path below a root, relative to it. */
export function relativeTo(root: string, path: string): string {
  if (path === root) return '.';
  const folder = root.endsWith('/') ? root : `${root}/`;
  return path.startsWith(folder) ? path.slice(folder.length) : path;
}

/** Whether two paths are equal after normalization. */
export function samePath(one: string, other: string): boolean {
  return normalizePath(one) === normalizePath(other);
}

/** Without `.`, `..` and double slashes. */
export function normalizePath(text: string): string {
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

function withoutLeadingDot(pattern: string): string {
  let at = 0;
  while (pattern.startsWith('./', at)) at += 2;
  return at === pattern.length ? pattern : pattern.slice(at);
}

function withoutOpeningGroups(pattern: string): string {
  let at = 0;
  while (at < pattern.length && GROUP_OPENERS.includes(pattern[at]!)) at += 1;
  return pattern.slice(at);
}

function countParentSegments(path: string): number {
  let count = 0;
  while (path.startsWith('../', count * 3)) count += 1;
  return path.slice(count * 3) === '..' ? count + 1 : count;
}
