import { describe, expect, it } from 'vitest';
import { embeddingSettings } from '../../src/jobs/embeddings.ts';

const chosen = (embeddings: string | undefined, file?: Parameters<typeof embeddingSettings>[1]) =>
  embeddingSettings({ embeddings }, file);

describe('embeddingSettings', () => {
  it('is undefined without a configured model', () => {
    expect(chosen(undefined)).toBeUndefined();
  });

  it('prefers the environment to the file', () => {
    expect(chosen('openai:text-embedding-3-small')).toEqual({
      provider: 'openai',
      model: 'text-embedding-3-small',
      name: 'openai:text-embedding-3-small',
      dimensions: undefined,
      floor: 0.3,
      questionMs: 1_500,
    });
    const file = { model: 'ollama:nomic-embed-text:v1.5', floor: 0.6, questionTimeoutMs: 500 };
    expect(chosen(undefined, file)).toMatchObject({
      provider: 'ollama',
      model: 'nomic-embed-text:v1.5',
      floor: 0.6,
      questionMs: 500,
    });
    // The floor of one model is not that of another.
    expect(chosen('google:gemini-embedding-001', file)).toMatchObject({
      provider: 'google',
      floor: 0.6,
      questionMs: 1_500,
    });
    expect(chosen('local:e5', file)?.floor).toBe(0.5);
  });

  it('includes the dimensions in the name', () => {
    const file = { model: 'openai:text-embedding-3-large', dimensions: 256 };
    expect(chosen(undefined, file)?.name).toBe('openai:text-embedding-3-large/256');
  });

  it.each(['text-embedding-3-small', 'openai:', ':x', 'Open AI:x', 'openai:a b'])(
    'is refused if it is like %j',
    (written) => {
      expect(() => chosen(written)).toThrow(/RELAY_EMBEDDINGS must be like openai:/);
      expect(() => chosen(undefined, { model: written })).toThrow(/relay\.config/);
    },
  );

  it('refuses a provider without embeddings', () => {
    expect(() => chosen('anthropic:claude')).toThrow('anthropic offers no embeddings');
  });
});
