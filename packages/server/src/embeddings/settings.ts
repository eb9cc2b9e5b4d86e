/**
 * Whether memories are found by their meaning, and by whose vectors. Without a word from the operator
 * nothing of them is sent to anyone, whatever credentials there are.
 */
import { z } from 'zod';
import type { Config } from '../config/config.ts';
import { ConfigError } from '../config/config-error.ts';

export interface EmbeddingConfig {
  /** A provider and its model, such as `openai:text-embedding-3-small`. */
  readonly model: string;
  /** Shorter vectors, from models that can make them. */
  readonly dimensions?: number;
  /** How alike texts must be to have to do with each other: each model has a scale of its own. */
  readonly floor?: number;
  /** How long a run waits for the vector of its question. */
  readonly questionTimeoutMs?: number;
}

export const embeddingSchema = z.strictObject({
  model: z.string().min(1),
  dimensions: z.int().min(8).max(8_192).optional(),
  floor: z.number().min(0).max(1).optional(),
  questionTimeoutMs: z.int().min(10).max(60_000).optional(),
});

export interface EmbeddingSettings {
  readonly provider: string;
  readonly model: string;
  /** What its vectors are known as: others are not compared with them. */
  readonly name: string;
  readonly dimensions: number | undefined;
  readonly floor: number;
  readonly questionMs: number;
}

/** What is usual of these models; of others, a cautious guess that the operator can better. */
const floors: Readonly<Record<string, number>> = {
  'text-embedding-3-small': 0.3,
  'text-embedding-3-large': 0.3,
  'text-embedding-ada-002': 0.78,
  'gemini-embedding-001': 0.6,
};
const usualFloor = 0.5;
const usualPatienceMs = 1_500;
/** They sell no embeddings, and would be asked for them with every run. */
const without = new Set(['anthropic']);

export function embeddingSettings(
  config: Pick<Config, 'embeddings'>,
  file: EmbeddingConfig | undefined,
): EmbeddingSettings | undefined {
  const written = config.embeddings ?? file?.model;
  if (written === undefined) return undefined;
  const from =
    config.embeddings === undefined ? 'relay.config: embeddings.model' : 'RELAY_EMBEDDINGS';
  const [, provider, model] = /^([a-z0-9-]{1,32}):(\S+)$/.exec(written) ?? [];
  if (provider === undefined || model === undefined) {
    throw new ConfigError(
      `${from} must be like openai:text-embedding-3-small, not ${JSON.stringify(written)}`,
    );
  }
  if (without.has(provider)) throw new ConfigError(`${from}: ${provider} offers no embeddings`);
  // What the file says beside a model is about that model.
  const said = config.embeddings === undefined || file?.model === written ? file : undefined;
  const dimensions = said?.dimensions;
  return {
    provider,
    model,
    name: dimensions === undefined ? written : `${written}/${dimensions}`,
    dimensions,
    floor: said?.floor ?? floors[model] ?? usualFloor,
    questionMs: said?.questionTimeoutMs ?? usualPatienceMs,
  };
}
