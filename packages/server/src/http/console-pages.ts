/**
 * The pages of the console: the built files of `@relay/console`, below `/console/`. They have no data; what they
 * show comes from the API. The folder may appear while the server runs, because `npm start` builds it in the
 * background.
 */
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, extname, join } from 'node:path';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { notFound } from './errors.ts';
import type { ServerContext } from './handlers/handler.ts';

export const consolePath = '/console/';
export const consoleMethods = ['GET', 'HEAD'] as const;

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  // The terminal colours characters by the attribute `style`. No markup of others becomes elements.
  "style-src-attr 'unsafe-inline'",
  "img-src 'self' data: blob:",
  "font-src 'self'",
  "connect-src 'self'",
  "manifest-src 'self'",
  "worker-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ');

const headers = {
  'content-security-policy': policy,
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
};

/** Files of other types are not served. */
const types: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.ico': 'image/x-icon',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.webmanifest': 'application/manifest+json',
  '.woff2': 'font/woff2',
};

/** Where the built files are, or will be. */
export function consoleFolder(): string {
  const manifest = createRequire(import.meta.url).resolve('@relay/console/package.json');
  return join(dirname(manifest), 'dist');
}

export function addConsolePages(app: FastifyInstance, { consoleDir }: ServerContext): void {
  app.route({
    method: [...consoleMethods],
    url: consolePath.slice(0, -1),
    handler: async (_request, reply) => reply.redirect(consolePath),
  });
  app.route<{ Params: { '*': string } }>({
    method: [...consoleMethods],
    url: `${consolePath}*`,
    handler: async (request, reply) => {
      reply.headers(headers);
      const file = request.params['*'] || 'index.html';
      if (await sendFile(consoleDir, file, request, reply)) return reply;
      if (file.startsWith('assets/') || !acceptsHtml(request)) throw notFound();
      // The page routes by its own address.
      if (await sendFile(consoleDir, 'index.html', request, reply)) return reply;
      return reply
        .code(503)
        .header('retry-after', '2')
        .header('cache-control', 'no-store')
        .type('text/html; charset=utf-8')
        .send(missingPage);
    },
  });
}

export function acceptsHtml({ headers: { accept } }: FastifyRequest): boolean {
  return accept?.includes('text/html') === true;
}

/** Names that lead nowhere but into the folder: no part of them begins with a dot. */
const nameForm = /^(?:[\w-][\w.-]*\/)*[\w-][\w.-]*$/;

async function sendFile(
  folder: string,
  file: string,
  { headers: { 'accept-encoding': accepted = '' } }: FastifyRequest,
  reply: FastifyReply,
): Promise<boolean> {
  const type = types[extname(file)];
  if (type === undefined || !nameForm.test(file)) return false;
  const found = await readEncoded(join(folder, file), accepted);
  if (found === undefined) return false;
  // The names of assets contain a hash of their content.
  const isAsset = file.startsWith('assets/');
  reply.raw.appendHeader('vary', 'Accept-Encoding');
  reply.header('cache-control', isAsset ? 'public, max-age=31536000, immutable' : 'no-store');
  if (found.encoding !== undefined) reply.header('content-encoding', found.encoding);
  reply.type(type).send(found.content);
  return true;
}

const encodings = [
  { encoding: 'br', suffix: '.br' },
  { encoding: 'gzip', suffix: '.gz' },
] as const;

/** Compressed, if the client accepts it and the build has made it. */
async function readEncoded(path: string, accepted: string) {
  for (const { encoding, suffix } of encodings) {
    if (!accepts(accepted, encoding)) continue;
    const content = await readIfPresent(`${path}${suffix}`);
    if (content !== undefined) return { content, encoding };
  }
  const content = await readIfPresent(path);
  return content === undefined ? undefined : { content, encoding: undefined };
}

function accepts(accepted: string, encoding: string): boolean {
  const named = accepted.split(',').map((part) =>
    part
      .trim()
      .toLowerCase()
      .split(/\s*;\s*/),
  );
  const found = named.find(([name]) => name === encoding);
  return found !== undefined && !found.some((part) => /^q=0(?:\.0*)?$/.test(part));
}

/** Of a file that does not exist, or cannot. */
const absent: ReadonlySet<string | undefined> = new Set([
  'ENOENT',
  'EISDIR',
  'ENOTDIR',
  'ENAMETOOLONG',
]);

async function readIfPresent(path: string): Promise<Buffer | undefined> {
  try {
    return await readFile(path);
  } catch (error) {
    if (absent.has((error as NodeJS.ErrnoException).code)) return undefined;
    throw error;
  }
}

/** Without a script or a style: the policy of the console allows none in a page. */
const missingPage = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="refresh" content="2"><meta name="color-scheme" content="light dark"><title>Relay console</title></head>
<body><h1>The console is being built</h1>
<p>This takes a few seconds after <code>npm start</code>. The page reloads by itself.</p>
<p>If the server was started in another way, build it in the folder of the clone: <code>node packages/console/build.mjs</code></p>
</body></html>
`;
