import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

import { citationsIn } from './citations.ts';
import { open } from './open.ts';
import { requirements } from './requirements.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const skippedFolders = new Set(['node_modules', 'dist']);
const scannerTest = join(root, 'test', 'conformance', 'citations.test.ts');

const listed = requirements.map(({ id }): string => id);
const known = new Set(listed);
const stillOpen = new Set<string>(open);
const files = ['packages', 'test', 'examples'].flatMap((folder) => testFilesIn(join(root, folder)));
const { cited, unreadable } = scan(files);

describe('the requirements of the seeds', () => {
  test('each have an id of their own', () => {
    const twice = repeated(listed);
    expect(twice, message('These ids are in the lists twice', twice)).toEqual([]);
  });

  test('have ids of the form <seed>:<topic>:<slug>', () => {
    const odd = listed.filter(
      (id) => !/^00[0-4]:[a-z0-9]+(-[a-z0-9]+)*:[a-z0-9]+(-[a-z0-9]+)*$/.test(id),
    );
    expect(odd, message('These ids have another form', odd)).toEqual([]);
  });

  test('are each verified by a test or open', () => {
    const missing = listed.filter((id) => !cited.has(id) && !stillOpen.has(id));
    expect(missing, message('No test cites these, nor are they in open.ts', missing)).toEqual([]);
  });
});

test('what 002 says of the library is verified through the library', () => {
  const library = /from '(@relay\/agents|\.\/library-002-drivers\.ts)'/;
  const uses = (file: string) => library.test(readFileSync(join(root, file), 'utf8'));
  const elsewhere = listed
    .filter((id) => seedOf(id) === '002')
    .filter((id) => ![...(cited.get(id) ?? [])].some(uses));
  expect(elsewhere, message('No test of the library cites these', elsewhere)).toEqual([]);
});

describe('the open requirements', () => {
  test('are all in the lists, each once', () => {
    const wrong = [...open.filter((id) => !known.has(id)), ...repeated(open)];
    expect(wrong, message('open.ts has these twice, or no list has them', wrong)).toEqual([]);
  });

  test('are cited by no test', () => {
    const done = open.filter((id) => cited.has(id)).map((id) => `${id} (${placesOf(id)})`);
    expect(done, message('Tests cite these: take them out of open.ts', done)).toEqual([]);
  });
});

describe('the citations', () => {
  test('are of requirements in the lists', () => {
    const unknown = [...cited.keys()].filter((id) => !known.has(id));
    const named = unknown.map((id) => `${id} (${placesOf(id)})`);
    expect(named, message('These ids are in no list', named)).toEqual([]);
  });

  test('are literal ids', () => {
    const text = 'Cite literal ids in quotes: these calls cannot be counted';
    expect(unreadable, message(text, unreadable)).toEqual([]);
  });
});

test('the counts add up for every seed', () => {
  const rows = [...new Set(listed.map(seedOf))].map((seed) => {
    const ids = listed.filter((id) => seedOf(id) === seed);
    const verified = ids.filter((id) => cited.has(id)).length;
    return {
      seed,
      total: ids.length,
      verified,
      open: ids.filter((id) => stillOpen.has(id)).length,
    };
  });
  const lines = rows.map((row) => line(row.seed, row.total, row.verified, row.open));
  console.info([line('seed', 'total', 'verified', 'open'), ...lines].join('\n'));
  expect(rows.map(({ seed }) => seed)).toEqual(['000', '001', '002', '003', '004']);
  for (const row of rows) expect(row).toMatchObject({ total: row.verified + row.open });
});

function testFilesIn(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return skippedFolders.has(entry.name) ? [] : testFilesIn(path);
    return entry.name.endsWith('.test.ts') && path !== scannerTest ? [path] : [];
  });
}

function scan(paths: readonly string[]): {
  cited: ReadonlyMap<string, ReadonlySet<string>>;
  unreadable: readonly string[];
} {
  const places = new Map<string, Set<string>>();
  const calls: string[] = [];
  for (const path of paths) {
    const name = relative(root, path);
    const found = citationsIn(readFileSync(path, 'utf8'));
    calls.push(...found.unreadable.map((call) => `${call} (${name})`));
    for (const id of found.ids) places.set(id, (places.get(id) ?? new Set()).add(name));
  }
  return { cited: places, unreadable: calls };
}

function placesOf(id: string): string {
  return [...(cited.get(id) ?? [])].join(', ');
}

function repeated(ids: readonly string[]): string[] {
  return ids.filter((id, index) => ids.indexOf(id) !== index);
}

function seedOf(id: string): string {
  return id.slice(0, 3);
}

function line(seed: string, ...cells: readonly (string | number)[]): string {
  return [seed.padEnd(6), ...cells.map((cell) => String(cell).padStart(10))].join('');
}

function message(what: string, items: readonly string[]): string {
  return `${what}:\n${items.map((item) => `  ${item}`).join('\n')}\n`;
}
