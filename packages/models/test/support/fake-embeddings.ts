/**
 * A provider of embeddings, over real HTTP, in the words of OpenAI and of Google. Its vectors mean
 * something: each word is a direction, and words of one meaning are the same one.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

const meanings: readonly (readonly string[])[] = [
  ['dog', 'pet', 'puppy'],
  ['car', 'vehicle', 'automobile'],
  ['tea', 'drink', 'beverage'],
  ['house', 'home', 'building'],
];
const dimensions = 96;

export interface EmbeddingRequest {
  readonly path: string;
  readonly key: string | undefined;
  readonly texts: readonly string[];
  readonly body: Readonly<Record<string, unknown>>;
}

/** What the next requests get instead of vectors. */
export type Misbehaviour =
  | { readonly status: number; readonly message?: string; readonly retryAfter?: number }
  | { readonly raw: string }
  | { readonly silentMs: number };

export interface FakeEmbeddings {
  /** Of both: OpenAI's is here, and Google's below `beta`. */
  readonly url: string;
  readonly beta: string;
  readonly requests: EmbeddingRequest[];
  /** Texts with this in them are refused, with all that come with them. */
  refused: string | undefined;
  misbehave(...how: Misbehaviour[]): void;
  stop(): Promise<void>;
}

export async function startFakeEmbeddings(): Promise<FakeEmbeddings> {
  const requests: EmbeddingRequest[] = [];
  const planned: Misbehaviour[] = [];
  const server = createServer((request, response) => {
    void answer({ request, response, requests, planned, fake }).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const fake: FakeEmbeddings = {
    url: `${base}/v1`,
    beta: `${base}/v1beta`,
    requests,
    refused: undefined,
    misbehave: (...how) => void planned.push(...how),
    stop: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
  return fake;
}

interface Asked {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly requests: EmbeddingRequest[];
  readonly planned: Misbehaviour[];
  readonly fake: FakeEmbeddings;
}

async function answer({ request, response, requests, planned, fake }: Asked): Promise<void> {
  const pieces: Buffer[] = [];
  for await (const piece of request) pieces.push(piece as Buffer);
  const body = JSON.parse(Buffer.concat(pieces).toString('utf8')) as Record<string, unknown>;
  const isGoogle = 'requests' in body;
  const texts = isGoogle ? googleTexts(body) : (body['input'] as string[]);
  const { authorization, 'x-goog-api-key': googleKey } = request.headers;
  const key = isGoogle ? String(googleKey) : authorization?.replace(/^Bearer /, '');
  requests.push({ path: request.url ?? '', key, texts, body });
  const send = (status: number, text: string, headers = {}) =>
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(text);
  const how = planned.shift();
  if (how !== undefined && 'silentMs' in how) {
    setTimeout(() => response.destroy(), how.silentMs).unref();
    return;
  }
  if (how !== undefined && 'raw' in how) return void send(200, how.raw);
  if (how !== undefined) {
    const { status, message = 'No', retryAfter } = how;
    const later = retryAfter === undefined ? {} : { 'retry-after': String(retryAfter) };
    return void send(status, JSON.stringify({ error: { message } }), later);
  }
  const { refused } = fake;
  if (refused !== undefined && texts.some((text) => text.includes(refused))) {
    return void send(400, JSON.stringify({ error: { message: 'A text is too odd' } }));
  }
  const vectors = texts.map(vectorOf);
  const body_ = isGoogle
    ? { embeddings: vectors.map((values) => ({ values })) }
    : // In any order: each says where it belongs.
      { data: vectors.map((embedding, index) => ({ index, embedding })).toReversed() };
  send(200, JSON.stringify(body_));
}

function googleTexts(body: Record<string, unknown>): string[] {
  const asked = body['requests'] as { content: { parts: { text: string }[] } }[];
  return asked.map(({ content }) => content.parts.map(({ text }) => text).join(''));
}

function vectorOf(text: string): number[] {
  const vector = Array<number>(dimensions).fill(0);
  for (const [word] of text.toLowerCase().matchAll(/[a-z]{3,}/g)) {
    const known = meanings.findIndex((words) => words.includes(word));
    const axis = known === -1 ? meanings.length + hashOf(word) : known;
    // Ordinary words weigh little beside those of which something is known.
    vector[axis] = (vector[axis] ?? 0) + (known === -1 ? 0.1 : 1);
  }
  vector[dimensions - 1] = 0.01;
  return vector;
}

function hashOf(word: string): number {
  let hash = 7;
  for (const letter of word) hash = (hash * 31 + letter.charCodeAt(0)) % 9_973;
  return hash % (dimensions - meanings.length - 1);
}
