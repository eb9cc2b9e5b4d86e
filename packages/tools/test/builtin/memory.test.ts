import type { RankedMemory, RunMemory } from '@relay/core';
import { describe, expect, it } from 'vitest';
import { memoryTool } from '../../src/builtin/memory.ts';
import { createToolContext } from '../support/tool-context.ts';

const note: RankedMemory = {
  id: '01963a5c-7890-7abc-8ef0-000000000001',
  namespace: 'user:42',
  text: 'Ada likes tea',
  runId: null,
  source: 'api',
  createdAt: 0,
  expiresAt: null,
  score: 0.5,
  foundBy: 'words',
};

function createMemory(found: readonly RankedMemory[] = [note]) {
  const calls: unknown[][] = [];
  const memory: RunMemory = {
    search: async (...given) => (calls.push(['search', ...given]), [...found]),
    remember: async (...given) => (calls.push(['remember', ...given]), note),
    forget: async (...given) => (calls.push(['forget', ...given]), false),
  };
  return { calls, context: createToolContext({ memory }) };
}

describe('memory', () => {
  it('is allowed by default, idempotent, and available only in runs with memory', () => {
    expect(memoryTool).toMatchObject({
      name: 'memory',
      allowedByDefault: true,
      idempotent: true,
      needsMemory: true,
    });
  });

  it('searches, and shows the notes with their ids and times', async () => {
    const { calls, context } = createMemory();
    const output = await memoryTool.execute({ action: 'search', query: 'tea' }, context);
    expect(calls).toEqual([['search', 'tea', 10]]);
    const shown = {
      id: note.id,
      text: note.text,
      createdAt: '1970-01-01T00:00:00.000Z',
      score: 0.5,
      foundBy: 'words',
    };
    expect(output.result).toEqual({ memories: [shown] });
    expect(JSON.parse(output.context ?? '')).toEqual([shown]);
  });

  it('shows the similarity of a note that was found by meaning', async () => {
    const found = { ...note, score: 0, similarity: 0.61, foundBy: 'meaning' as const };
    const { context } = createMemory([found]);
    const output = await memoryTool.execute({ action: 'search', query: 'drink' }, context);
    expect(output.result).toMatchObject({
      memories: [{ id: note.id, score: 0, similarity: 0.61, foundBy: 'meaning' }],
    });
  });

  it('reports that nothing was found', async () => {
    const { context } = createMemory([]);
    expect(await memoryTool.execute({ action: 'search', query: 'x' }, context)).toEqual({
      context: 'No matching notes.',
      result: { memories: [] },
    });
  });

  it('remembers a text, and forgets a note whether it is there or not', async () => {
    const { calls, context } = createMemory();
    const kept = await memoryTool.execute({ action: 'remember', text: 'Ada likes tea' }, context);
    expect(kept.result).toEqual({ id: note.id });
    const gone = await memoryTool.execute({ action: 'forget', id: 'x' }, context);
    expect(gone.result).toEqual({ id: 'x' });
    expect(calls).toEqual([
      ['remember', 'Ada likes tea'],
      ['forget', 'x'],
    ]);
  });

  it('fails in a run without memory', async () => {
    const call = memoryTool.execute({ action: 'search', query: 'x' }, createToolContext());
    await expect(call).rejects.toThrow('This run has no memory');
  });

  it.each([
    [{}, 'action'],
    [{ action: 'burn' }, 'action'],
    [{ action: 'search' }, 'query'],
    [{ action: 'search', query: '' }, 'query'],
    [{ action: 'search', query: 'x', text: 'y' }, 'text'],
    [{ action: 'remember', id: 'x' }, 'text'],
    [{ action: 'remember', text: 'x'.repeat(8_001) }, 'text'],
    [{ action: 'forget', query: 'x' }, 'id'],
    [{ action: 'search', query: 'x', namespace: 'user:43' }, 'namespace'],
  ])('refuses %j', (input, path) => {
    const validation = memoryTool.validate(input);
    expect(validation.ok).toBe(false);
    const issues = validation.ok ? [] : validation.issues;
    expect(issues.map((issue) => issue.path)).toContain(path);
  });

  it.each([
    { action: 'search', query: 'x' },
    { action: 'remember', text: 'x' },
    { action: 'forget', id: 'x' },
  ])('takes %j', (input) => {
    expect(memoryTool.validate(input)).toEqual({ ok: true, value: input });
  });
});
