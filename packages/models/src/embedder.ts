/**
 * Embedders of providers: any server with OpenAI's `/embeddings`, and Google. A failure that may pass
 * is tried again, a few times and not for long; whoever embeds in the background comes back later
 * anyway, and a question does not wait.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Embedder, type EmbeddingOf, ProviderFailure } from '@relay/core';
import { defaultTimeouts } from './http/exchange.ts';
import { type JsonPost, postJson } from './http/response.ts';
import { callAborted, checkApiKey } from './http/provider-failure.ts';
import type { ProviderOptions } from './ai-sdk/model.ts';

export interface EmbedderOptions extends ProviderOptions {
  /** What the provider calls the model. */
  readonly model: string;
  /** What its vectors are known as. */
  readonly name: string;
  /** Shorter vectors, from models that can make them. */
  readonly dimensions?: number | undefined;
  readonly floor: number;
  /** How long a question may take. */
  readonly questionMs: number;
}

const attempts = 3;
const firstPauseMs = 500;
const longestPauseMs = 10_000;
/** Longer ones than any model makes would only be a way to fill the disk. */
const maxDimensions = 8_192;
/** Of a number as JSON, and of what stands around the vectors: a longer answer is read by nobody. */
const maxNumberBytes = 32;
const maxFrameBytes = 64 * 1024;

interface Api {
  post(texts: readonly string[], purpose: EmbeddingOf['purpose']): Pick<JsonPost, 'url' | 'body'>;
  headers: Readonly<Record<string, string>>;
  /** The so many vectors in an answer, in their order; undefined if it holds more or fewer. */
  read(answer: unknown, count: number): readonly unknown[] | undefined;
}

/** OpenAI itself, and everything that speaks like it. */
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
      // Each says where it belongs; what belongs nowhere leaves a gap, which is no vector.
      return rows.map((_, place) => {
        const found = rows.find((row, at) => (row?.index ?? at) === place);
        return found?.embedding;
      });
    },
  });
}

/** Google by its Gemini API. */
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

function endpoint(baseUrl: string, path: string): URL {
  const url = new URL(baseUrl);
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/${path}`;
  return url;
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
      const limits = [...(signal ? [signal] : []), ...(isQuestion ? [deadline(questionMs)] : [])];
      const given = AbortSignal.any(limits);
      const { headers } = api;
      const maxBytes = maxFrameBytes + texts.length * maxDimensions * maxNumberBytes;
      const wire = { headers, agent, timeouts, secret: apiKey, maxBytes };
      const post = { ...api.post(texts, purpose), ...wire };
      try {
        return await patiently(() => embed(api, post, { given, count: texts.length }), given);
      } catch (cause) {
        const isLate = isQuestion && given.aborted && signal?.aborted !== true;
        throw isLate ? tooLate(questionMs) : cause;
      }
    },
  };
}

function deadline(ms: number): AbortSignal {
  return AbortSignal.timeout(ms);
}

async function embed(
  api: Api,
  post: JsonPost,
  { given, count }: { given: AbortSignal; count: number },
): Promise<Float32Array[]> {
  const answer = await postJson(post, given);
  const isObject = typeof answer === 'object' && answer !== null;
  const vectors = (isObject ? api.read(answer, count) : undefined)?.map(vectorOf);
  const [first] = vectors ?? [];
  const areAlike = vectors?.every(
    (vector) => vector !== undefined && vector.length === first?.length,
  );
  if (vectors === undefined || areAlike !== true) {
    throw new ProviderFailure('The provider sent something other than vectors', {
      retryable: false,
    });
  }
  return vectors as Float32Array[];
}

/** Undefined if it is none: not numbers, none at all, far too many, or without a direction. */
function vectorOf(value: unknown): Float32Array | undefined {
  if (!Array.isArray(value) || value.length === 0 || value.length > maxDimensions) return undefined;
  if (!value.every((each) => typeof each === 'number')) return undefined;
  const vector = Float32Array.from(value);
  const isUsable = vector.every(Number.isFinite) && vector.some((each) => each !== 0);
  return isUsable ? vector : undefined;
}

async function patiently<Value>(call: () => Promise<Value>, signal: AbortSignal): Promise<Value> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await call();
    } catch (cause) {
      if (!(cause instanceof ProviderFailure) || !cause.retryable || attempt === attempts)
        throw cause;
      const pause = Math.max(firstPauseMs * 2 ** (attempt - 1), cause.retryAfterMs ?? 0);
      if (pause > longestPauseMs) throw cause;
      await sleep(pause * (0.75 + Math.random() / 4), undefined, { signal }).catch(() => {
        throw callAborted();
      });
    }
  }
}

function tooLate(ms: number): ProviderFailure {
  return new ProviderFailure(`The provider took longer than ${ms / 1000} s`, { retryable: true });
}
