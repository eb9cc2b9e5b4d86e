import { describe, expect, it } from 'vitest';
import { parseModelName } from '../src/registry.ts';

describe('the name of a model', () => {
  it.each([
    ['gpt-4o-mini', 'openai', 'gpt-4o-mini'],
    ['chatgpt-4o-latest', 'openai', 'chatgpt-4o-latest'],
    ['o1-preview', 'openai', 'o1-preview'],
    ['o3', 'openai', 'o3'],
    ['o4-mini', 'openai', 'o4-mini'],
    ['claude-sonnet-4', 'anthropic', 'claude-sonnet-4'],
    ['gemini-2.5-pro', 'google', 'gemini-2.5-pro'],
    ['zhipu:glm-4.7', 'zhipu', 'glm-4.7'],
    ['openai:my-tune:v2', 'openai', 'my-tune:v2'],
    ['local:claude-like', 'local', 'claude-like'],
  ])('%s means %s', (name, provider, model) => {
    expect(parseModelName(name)).toEqual({ provider, model });
  });

  it.each([
    '',
    'demo',
    'glm-4.7',
    'o2',
    'GPT-4',
    ':x',
    'x:',
    'A:b',
    `${'a'.repeat(33)}:m`,
    'mygpt-4',
  ])('%j means none', (name) => {
    expect(parseModelName(name)).toBeUndefined();
  });
});
