import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { listKnownModels, readModelTable, updateModelTable } from '../../src/config/model-table.ts';

let dataDir: string;
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'relay-models-'));
});
afterEach(() => rmSync(dataDir, { recursive: true }));

const installation = () => ({ env: { RELAY_DATA_DIR: dataDir }, cwd: dataDir });
const price = { inputPerMillion: 3, outputPerMillion: 9 };

function update(content: unknown) {
  const text = typeof content === 'string' ? content : JSON.stringify(content);
  writeFileSync(join(dataDir, 'new.json'), text);
  return updateModelTable(installation(), 'new.json');
}

describe('the operator’s table of models', () => {
  it('is empty at first', () => {
    expect(readModelTable(dataDir)).toEqual({});
  });

  it('is merged from a file, which names what changed', () => {
    const models = { 'gpt-5.5': { price }, 'ollama:qwen3': { contextTokens: 32_000 } };
    const changes = update({ date: '2026-11-15', source: 'our contract', models });
    expect(changes).toMatchObject([
      { model: 'gpt-5.5', before: { price: { inputPerMillion: 5 } }, after: { price } },
      { model: 'ollama:qwen3', after: { contextTokens: 32_000 } },
    ]);
    expect(update({ date: '2026-11-16', models })).toEqual([]);
    update({ date: '2026-12-01', models: { 'ollama:qwen3': { price } } });
    expect(readModelTable(dataDir)).toMatchObject({
      'gpt-5.5': { price },
      'ollama:qwen3': { contextTokens: 32_000, price },
    });
  });

  it('is listed together with the built-in models, with dates and sources', () => {
    update({ date: '2026-12-01', source: 'our contract', models: { 'gpt-6-sol': { price } } });
    const listed = listKnownModels(installation());
    expect(listed.find(({ model }) => model === 'gpt-6-sol')).toMatchObject({
      contextTokens: 922_000,
      price,
      date: '2026-12-01',
      source: 'our contract',
    });
    expect(listed.find(({ model }) => model === 'claude-opus-5-5')).toMatchObject({
      provider: 'anthropic',
      date: '2026-09',
      source: 'built in',
    });
  });

  it('lists a built-in price with the date of its source, and no date without a price', () => {
    const listed = listKnownModels(installation());
    expect(new Set(listed.map(({ date }) => date)).size).toBeGreaterThan(2);
    for (const { model, price: known, date } of listed) {
      expect({ model, dated: date !== undefined }).toEqual({ model, dated: known !== undefined });
    }
  });

  it('lists a built-in price as built in if only the window was updated', () => {
    const models = { 'gpt-5.5': { contextTokens: 9 }, 'gpt-6-sol': { contextTokens: 9 } };
    update({ date: '2026-12-01', source: 'our proxy', models });
    const listed = listKnownModels(installation());
    expect(listed.find(({ model }) => model === 'gpt-5.5')).toMatchObject({
      contextTokens: 9,
      price: { inputPerMillion: 5 },
      date: '2026-07',
      source: 'built in',
    });
    expect(listed.find(({ model }) => model === 'gpt-6-sol')).toMatchObject({
      date: '2026-12-01',
      source: 'our proxy',
    });
  });

  it.each([
    ['no JSON', '{', /could not be read/],
    ['no date', { models: {} }, /new\.json: date: /],
    [
      'a negative price',
      { date: '2026-11-15', models: { m: { price: { inputPerMillion: -1 } } } },
      /models\.m\.price/,
    ],
    [
      'an entry without content',
      { date: '2026-11-15', models: { m: {} } },
      /Set contextTokens, price or both/,
    ],
    ['an unknown field', { date: '2026-11-15', models: { m: { window: 1 } } }, /models\.m/],
  ])('refuses a file with %s, and stays as it was', (_what, content, message) => {
    update({ date: '2026-11-15', models: { m: { price } } });
    const before = readFileSync(join(dataDir, 'models.json'), 'utf8');
    expect(() => update(content)).toThrow(message);
    expect(readFileSync(join(dataDir, 'models.json'), 'utf8')).toBe(before);
  });
});
