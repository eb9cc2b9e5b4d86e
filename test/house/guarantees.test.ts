/** The tests that the guarantees cite exist. */
import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';

const root = new URL('../../', import.meta.url);
const page = readFileSync(new URL('docs/reference/guarantees.md', root), 'utf8');
const cited = [...page.matchAll(/^- `([^`]+)`: (.+)$/gm)].map(([, file = '', name = '']) => ({
  file,
  name,
}));
const sections = page.split(/^## /m).slice(1);

describe('the guarantees', () => {
  test('each cite a test', () => {
    expect(sections.length).toBeGreaterThanOrEqual(9);
    for (const section of sections) expect(section).toMatch(/^- `/m);
  });

  test.each(cited)('cite an existing test: $file: $name', ({ file, name }) => {
    expect(existsSync(new URL(file, root))).toBe(true);
    expect(readFileSync(new URL(file, root), 'utf8')).toContain(name);
  });
});
