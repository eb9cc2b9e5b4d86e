import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import * as wire from '../src/wire.ts';

/** What a module still imports when its types are stripped: all but `import type`, `export type`. */
function importsOf(source: string): string[] {
  const code = source.replaceAll(/\/\*[^]*?\*\//g, '').replaceAll(/^\s*\/\/.*$/gm, '');
  const from = code.matchAll(
    /^\s*(?:import|export)\b(?!\s+type\b)[\s\w$*{},]*?\bfrom\s*['"]([^'"]+)['"]/gm,
  );
  const bare = code.matchAll(/^\s*import\s*['"]([^'"]+)['"]/gm);
  const dynamic = code.matchAll(/\bimport\(\s*['"]([^'"]+)['"]\s*\)/g);
  return [...from, ...bare, ...dynamic].map(([, specifier]) => specifier ?? '');
}

/** Every module that is loaded with an entry: files by their URL, packages by their name. */
function loadedWith(entry: URL): Set<string> {
  const seen = new Set<string>();
  const visit = (file: URL) => {
    if (seen.has(file.href)) return;
    seen.add(file.href);
    for (const specifier of importsOf(readFileSync(file, 'utf8'))) {
      if (specifier.startsWith('.')) visit(new URL(specifier, file));
      else seen.add(specifier);
    }
  };
  visit(entry);
  return seen;
}

function packagesIn(modules: ReadonlySet<string>): string[] {
  return [...modules].filter((module) => !module.startsWith('file:'));
}

describe('@relay/protocol/wire', () => {
  it('loads no package at run time', () => {
    expect(packagesIn(loadedWith(new URL('../src/wire.ts', import.meta.url)))).toEqual([]);
  });

  it('differs from the main entry, which loads only zod', () => {
    expect(packagesIn(loadedWith(new URL('../src/index.ts', import.meta.url)))).toEqual(['zod']);
  });

  it('exports the SSE parser', () => {
    expect(Object.keys(wire)).toContain('SseParser');
    expect(Object.keys(wire)).toContain('readSse');
  });
});

describe('import scanner of this test', () => {
  it.each([
    ["import { z } from 'zod';", ['zod']],
    ["import 'zod';", ['zod']],
    ["export * from './a.ts';", ['./a.ts']],
    ["import { type A } from './a.ts';", ['./a.ts']],
    ["import {\n  a,\n  b,\n} from './a.ts';", ['./a.ts']],
    ["const a = await import('./a.ts');", ['./a.ts']],
    ["import type { A } from './a.ts';", []],
    ["export type { A } from './a.ts';", []],
    ["/** import { z } from 'zod'; */\nexport const a = 'zod';", []],
  ])('reads %j as %j', (source, specifiers) => {
    expect(importsOf(source)).toEqual(specifiers);
  });
});
