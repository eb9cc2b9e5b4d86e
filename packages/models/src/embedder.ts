/**
 * Embedders: any server with OpenAI's `/embeddings`, and Google. Retryable failures are retried a few
 * times and briefly: the background worker retries later anyway, and a query has a short timeout.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Embedder, type EmbedOptions, ProviderFailure } from '@relay/core';
import { defaultTimeouts } from './http/exchange.ts';
import { type JsonPost, postJson } from './http/response.ts';
import { callAborted, checkApiKey } from './http/provider-failure.ts';
import { endpoint, type ProviderOptions } from './provider-request.ts';

export interface EmbedderOptions extends ProviderOptions {
  readonly model: string;
  /** The name stored with its vectors. */
  readonly name: string;
  /** Shorter vectors, for models that support them. */
  readonly dimensions?: number | undefined;
  readonly floor: number;
  readonly questionMs: number;
}

const attempts = 3;
const minDelayMs = 500;
const maxDelayMs = 10_000;
/** More than any model has. */
const maxDimensions = 8_192;
/** Bounds of the response: bytes per number, and for everything besides the vectors. */
const maxNumberBytes = 32;
const maxOverheadBytes = 64 * 1024;

interface Api {
  post(texts: readonly string[], purpose: EmbedOptions['purpose']): Pick<JsonPost, 'url' | 'body'>;
  headers: Readonly<Record<string, string>>;
  /** The vectors of a response in order; undefined if there are not exactly `count`. */
  read(answer: unknown, count: number): readonly unknown[] | undefined;
}

/** OpenAI and compatible servers. */
export function createOpenAiEmbedder(options: EmbedderOptions): Embedder {
  const { apiKey, model, dimensions } = options;
  const url = endpoint(options.baseUrl ?? 'https://api.openai.com/v1', 'embeddings');
  return embedderOf(options, {
    headers: { authorization: `Bearer ${apiKey}` },
    post: (input) => ({
      url,
      body: { model, input, encoding_format: 'float', ...(dimensions && { dimensions }) },
    }),
    read(answer, count) {
      const { data } = answer as { data?: unknown };
      if (!Array.isArray(data) || data.length !== count) return undefined;
      const rows = data as ({ index?: unknown; embedding?: unknown } | null)[];
      // A missing index leaves a gap, which is rejected as an invalid vector.
      return rows.map(
        (_, index) => rows.find((row, at) => (row?.index ?? at) === index)?.embedding,
      );
    },
  });
}

export function createGoogleEmbedder(options: EmbedderOptions): Embedder {
  const { apiKey, model, dimensions } = options;
  const base = options.baseUrl ?? 'https://generativelanguage.googleapis.com/v1beta';
  const path = `models/${encodeURIComponent(model)}:batchEmbedContents`;
  const tasks = { question: 'RETRIEVAL_QUERY', memory: 'RETRIEVAL_DOCUMENT' } as const;
  return embedderOf(options, {
    headers: { 'x-goog-api-key': apiKey },
    post: (texts, purpose) => ({
      url: endpoint(base, path),
      body: {
        requests: texts.map((text) => ({
          model: `models/${model}`,
          content: { parts: [{ text }] },
          taskType: tasks[purpose],
          ...(dimensions && { outputDimensionality: dimensions }),
        })),
      },
    }),
    read(answer, count) {
      const { embeddings } = answer as { embeddings?: unknown };
      if (!Array.isArray(embeddings) || embeddings.length !== count) return undefined;
      return (embeddings as ({ values?: unknown } | null)[]).map((each) => each?.values);
    },
  });
}

function embedderOf(options: EmbedderOptions, api: Api): Embedder {
  const { apiKey, agent, name, floor, questionMs } = options;
  checkApiKey(apiKey);
  const timeouts = { ...defaultTimeouts, ...options.timeouts };
  return {
    model: name,
    floor,
    async embed(texts, { purpose, signal }) {
      if (texts.length === 0) return [];
      const isQuestion = purpose === 'question';
      const signals = signal === undefined ? [] : [signal];
      if (isQuestion) signals.push(AbortSignal.timeout(questionMs));
      const limited = AbortSignal.any(signals);
      const { headers } = api;
      const maxBytes = maxOverheadBytes + texts.length * maxDimensions * maxNumberBytes;
      const wire = { headers, agent, timeouts, secret: apiKey, maxBytes };
      const post = { ...api.post(texts, purpose), ...wire };
      try {
        return await withRetries(() => embed(api, post, texts.length, limited), limited);
      } catch (cause) {
        const isLate = isQuestion && limited.aborted && signal?.aborted !== true;
        if (!isLate) throw cause;
        const message = `The provider took longer than ${questionMs / 1000} s`;
        throw new ProviderFailure(message, { retryable: true });
      }
    },
  };
}

async function embed(
  api: Api,
  post: JsonPost,
  count: number,
  signal: AbortSignal,
): Promise<Float32Array[]> {
  const answer = await postJson(post, signal);
  const isObject = typeof answer === 'object' && answer !== null;
  const vectors = (isObject ? api.read(answer, count) : undefined)?.map(vectorOf);
  const [first] = vectors ?? [];
  const areValid = vectors?.every(
    (vector) => vector !== undefined && vector.length === first?.length,
  );
  if (vectors === undefined || areValid !== true) {
    throw new ProviderFailure('The provider sent an invalid embeddings response', {
      retryable: false,
    });
  }
  return vectors as Float32Array[];
}

/** Undefined if it is invalid: not numbers, empty, too long, or all zeros. */
function vectorOf(value: unknown): Float32Array | undefined {
  if (!Array.isArray(value) || value.length === 0 || value.length > maxDimensions) return undefined;
  if (!value.every((each) => typeof each === 'number')) return undefined;
  const vector = Float32Array.from(value);
  const isUsable = vector.every(Number.isFinite) && vector.some((each) => each !== 0);
  return isUsable ? vector : undefined;
}

async function withRetries<Value>(call: () => Promise<Value>, signal: AbortSignal): Promise<Value> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await call();
    } catch (cause) {
      if (!(cause instanceof ProviderFailure) || !cause.retryable || attempt === attempts)
        throw cause;
      const delayMs = Math.max(minDelayMs * 2 ** (attempt - 1), cause.retryAfterMs ?? 0);
      if (delayMs > maxDelayMs) throw cause;
      await sleep(delayMs * (0.75 + Math.random() / 4), undefined, { signal }).catch(() => {
        throw callAborted();
      });
    }
  }
}
