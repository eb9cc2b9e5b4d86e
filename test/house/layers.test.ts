import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

const root = fileURLToPath(new URL('../../packages', import.meta.url));

/** The picture of ARCHITECTURE.md: what each room may import. */
const picture: Record<string, readonly string[]> = {
  protocol: [],
  sdk: ['protocol'],
  core: ['protocol'],
  store: ['core', 'protocol'],
  models: ['core', 'protocol'],
  tools: ['core', 'protocol'],
  agents: ['core', 'models', 'protocol', 'store', 'tools'],
  server: ['core', 'models', 'protocol', 'store', 'tools'],
  cli: ['sdk', 'server'],
};

interface Manifest {
  readonly dependencies?: Readonly<Record<string, string>>;
}

function filesOf(room: string): string[] {
  return readdirSync(join(root, room, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join(root, room, 'src', name));
}

function importsOf(file: string): string[] {
  const source = readFileSync(file, 'utf8');
  return [...source.matchAll(/(?:from|import)\s*\(?\s*'([^']+)'/g)].flatMap(
    ([, name]) => name ?? [],
  );
}

const rooms = readdirSync(root);

describe('the rooms', () => {
  test('are those of the picture', () => {
    expect(rooms.toSorted()).toEqual(Object.keys(picture).toSorted());
  });

  test.each(rooms)('%s depends on the rooms above it alone', (room) => {
    const manifest = JSON.parse(readFileSync(join(root, room, 'package.json'), 'utf8')) as Manifest;
    const depends = Object.keys(manifest.dependencies ?? {})
      .filter((name) => name.startsWith('@relay/'))
      .map((name) => name.slice('@relay/'.length));
    expect(depends.toSorted()).toEqual([...(picture[room] ?? [])].toSorted());
  });

  test.each(rooms)('%s imports from the rooms above it alone', (room) => {
    const allowed = new Set([room, ...(picture[room] ?? [])]);
    const strays = filesOf(room).flatMap((file) =>
      importsOf(file)
        .filter((name) => name.startsWith('@relay/') && !allowed.has(name.split('/')[1] ?? ''))
        .map((name) => `${relative(root, file)} imports ${name}`),
    );
    expect(strays).toEqual([]);
  });

  test.each(rooms)('%s reaches into no other room by path', (room) => {
    const strays = filesOf(room).filter((file) =>
      importsOf(file).some((name) => /^(\.\.\/)+(packages|[a-z]+\/src)\//.test(name)),
    );
    expect(strays).toEqual([]);
  });

  test.each(['protocol', 'sdk', 'core'])('%s does no input or output', (room) => {
    const strays = filesOf(room)
      .filter((file) => !file.endsWith('.test.ts'))
      .filter((file) => importsOf(file).some((name) => name.startsWith('node:')));
    expect(strays.map((file) => relative(root, file))).toEqual([]);
  });

  test('sdk sees of protocol only what needs no zod, and nothing else at all', () => {
    const strays = filesOf('sdk')
      .filter((file) => !file.endsWith('.test.ts') && !file.includes('/testing/'))
      .flatMap((file) =>
        importsOf(file).filter((name) => !/^\.|^@relay\/protocol\/wire$/.test(name)),
      );
    expect(strays).toEqual([]);
  });

  test('protocol needs zod alone, and core nothing but protocol and a parser of shell commands', () => {
    for (const [room, allowed] of [
      ['protocol', /^(\.|zod$)/],
      ['core', /^(\.|@relay\/protocol(\/|$)|unbash$)/],
    ] as const) {
      const strays = filesOf(room)
        .filter((file) => !file.endsWith('.test.ts') && !file.includes('/testing/'))
        .flatMap((file) => importsOf(file).filter((name) => !allowed.test(name)));
      expect(strays).toEqual([]);
    }
  });
});
