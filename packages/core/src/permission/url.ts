/*
 * How a pattern matches a URL: the host is matched as a whole, apart from the path, and only in the
 * form that a client would connect to. `https://*.example.com/*` does not match
 * `https://evil.net/.example.com/`, nor `https://api.example.com/*` a user name before an `@`.
 */
import { defined, type ExplainedParameter } from '@relay/protocol';
import { compileGlob } from './glob/glob.ts';
import { spendSteps } from './step-budget.ts';

type UrlParameter = Extract<ExplainedParameter, { kind: 'url' }>;

const EVERYTHING: ReadonlySet<string> = new Set(['*', '**']);
// Clients disagree about spaces, backslashes and non-ASCII names.
const PLAIN = /^https?:\/\/[\x21\x23-\x2e\x30-\x5b\x5d-\x7e][\x21-\x5b\x5d-\x7e]*$/i;
/** What it costs to parse and normalize a character. */
const READING_STEPS = 8;
const OPEN_END = /\*[)}\]]*(?:$|[,|])/;
const LITERAL_ORIGIN = /^https?:\/\/[\w.-]+(?::\d+)?(?=\/|$)/i;

/** Whether the normalized URL matches the pattern. The caller has matched the raw text. */
export function allowsUrl(pattern: string, text: string): boolean {
  spendSteps(READING_STEPS * text.length);
  const url = readUrl(text);
  if (url === undefined || url.username !== '' || url.password !== '') return false;
  if (hasEncodedParentStep(url.pathname)) return false;
  if (EVERYTHING.has(pattern)) return true;
  const normalized = normalizePattern(pattern);
  const host = hostPattern(normalized);
  if (host === undefined || !allowsHost(host, url.host)) return false;
  return compileGlob(normalized).matches(textOf(url));
}

/** The interpretations of a URL that deny patterns are matched against. */
export function urlReadings(text: string): readonly string[] {
  spendSteps(6 * READING_STEPS * text.length);
  const url = parse(text.trim());
  if (url === undefined) return [];
  const readings = [url.href, textOf(url)];
  url.username = '';
  url.password = '';
  readings.push(textOf(url));
  if (url.hostname.endsWith('.')) url.hostname = url.hostname.slice(0, -1);
  url.hostname = mappedAddress(url.hostname) ?? url.hostname;
  readings.push(textOf(url));
  // A rule without a port is about every port of the host.
  url.port = '';
  readings.push(textOf(url));
  return [...new Set(readings)];
}

/** Whether a deny pattern matches any interpretation of the URL. */
export function deniesUrl(pattern: string, readings: readonly string[]): boolean {
  if (readings.length === 0) return false;
  const globs = [compileGlob(pattern, 'deny'), compileGlob(normalizePattern(pattern), 'deny')];
  return globs.some((glob) => readings.some((reading) => glob.matches(reading)));
}

/** The IPv4 address of a mapped IPv6 address: `[::ffff:7f00:1]` is 127.0.0.1. */
function mappedAddress(host: string): string | undefined {
  const [, high, low] = /^\[::ffff:([\da-f]{1,4}):([\da-f]{1,4})\]$/.exec(host) ?? [];
  if (high === undefined || low === undefined) return undefined;
  const parts = [high, low].map((part) => Number.parseInt(part, 16));
  return parts.flatMap((part) => [part >> 8, part & 0xff]).join('.');
}

export function isReadableUrl(text: string): boolean {
  return readUrl(text) !== undefined;
}

/** Where a client would connect to. */
export function explainUrl(text: string): Omit<UrlParameter, 'kind' | 'url'> {
  const url = parse(text.trim());
  const credentials = url !== undefined && (url.username !== '' || url.password !== '');
  const understood = isReadableUrl(text) && !credentials;
  if (url === undefined) return { credentials, understood };
  const scheme = url.protocol.slice(0, -1);
  const host = url.host === '' ? undefined : url.host;
  return { scheme, ...defined({ host }), credentials, understood };
}

function readUrl(text: string): URL | undefined {
  return PLAIN.test(text) ? parse(text) : undefined;
}

function parse(text: string): URL | undefined {
  return URL.canParse(text) ? new URL(text) : undefined;
}

/** Without the fragment, which is not sent to the server. */
function textOf(url: URL): string {
  return url.href.slice(0, url.href.length - url.hash.length);
}

/** `..%2f` is a name to the URL parser, but a parent folder to some servers. */
function hasEncodedParentStep(path: string): boolean {
  const plain = path
    .toLowerCase()
    .replaceAll('%25', '%')
    .replaceAll('%2e', '.')
    .replace(/%2f|%5c/g, '/');
  return plain.split('/').some((part) => part === '..' || part.startsWith('..;'));
}

/** With scheme and host in lower case, and without a default port. */
function normalizePattern(pattern: string): string {
  const origin = LITERAL_ORIGIN.exec(pattern)?.[0];
  const url = origin === undefined ? undefined : parse(origin);
  if (origin === undefined || url === undefined) return pattern;
  return url.origin + (pattern.slice(origin.length) || '/');
}

/** The part between `://` and the next slash outside of a group; undefined if there is none. */
function hostPattern(pattern: string): string | undefined {
  const scheme = pattern.indexOf('://');
  if (scheme < 0) return undefined;
  let depth = 0;
  let end = scheme + 3;
  for (; end < pattern.length; end += 1) {
    const char = pattern[end]!;
    if ('{(['.includes(char)) depth += 1;
    else if ('})]'.includes(char)) depth -= 1;
    else if (char === '/' && depth === 0) break;
    else if (char === '\\') return undefined;
  }
  return pattern.slice(scheme + 3, end);
}

/**
 * A star at the end of a host name would also match `.evil.net`. It therefore matches nothing there,
 * unless it ends a port or is the whole pattern.
 */
function allowsHost(pattern: string, host: string): boolean {
  if (EVERYTHING.has(pattern)) return true;
  const open = OPEN_END.exec(pattern);
  if (open === null || pattern.lastIndexOf(':', open.index) >= 0) {
    return compileGlob(pattern).matches(host);
  }
  return host === pattern.slice(0, open.index);
}
