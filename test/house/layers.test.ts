import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

const root = fileURLToPath(new URL('../../packages', import.meta.url));

/** The layers of ARCHITECTURE.md: which packages each package may import. */
const layers: Record<string, readonly string[]> = {
  protocol: [],
  create: [],
  sdk: ['protocol'],
  console: ['protocol', 'sdk'],
  core: ['protocol'],
  store: ['core', 'protocol'],
  models: ['core', 'protocol'],
  processes: [],
  tools: ['core', 'processes', 'protocol'],
  harnesses: ['core', 'processes', 'protocol'],
  agents: ['core', 'models', 'protocol', 'store', 'tools'],
  server: ['console', 'core', 'harnesses', 'models', 'processes', 'protocol', 'store', 'tools'],
  cli: ['agents', 'protocol', 'sdk', 'server'],
};

interface Manifest {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

function filesOf(packageName: string): string[] {
  return readdirSync(join(root, packageName, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.tsx?$/.test(name))
    .map((name) => join(root, packageName, 'src', name));
}

function importsOf(file: string): string[] {
  const source = readFileSync(file, 'utf8');
  return [...source.matchAll(/(?:from|import)\s*\(?\s*'([^'\n]+)'/g)].flatMap(
    ([, name]) => name ?? [],
  );
}

const packages = readdirSync(root);

describe('packages', () => {
  test('are those of ARCHITECTURE.md', () => {
    expect(packages.toSorted()).toEqual(Object.keys(layers).toSorted());
  });

  test.each(packages)('%s depends exactly on its layers', (packageName) => {
    const manifest = JSON.parse(
      readFileSync(join(root, packageName, 'package.json'), 'utf8'),
    ) as Manifest;
    // The console is published as a bundle, so it needs nothing when it is installed.
    const { dependencies = {}, devDependencies = {} } = manifest;
    const depends = Object.keys(packageName === 'console' ? devDependencies : dependencies)
      .filter((name) => name.startsWith('@relay/'))
      .map((name) => name.slice('@relay/'.length));
    expect(depends.toSorted()).toEqual([...(layers[packageName] ?? [])].toSorted());
  });

  test.each(packages)('%s imports only from its layers', (packageName) => {
    const allowed = new Set([packageName, ...(layers[packageName] ?? [])]);
    const violations = filesOf(packageName).flatMap((file) =>
      importsOf(file)
        .filter((name) => name.startsWith('@relay/') && !allowed.has(name.split('/')[1] ?? ''))
        .map((name) => `${relative(root, file)} imports ${name}`),
    );
    expect(violations).toEqual([]);
  });

  test.each(packages)('%s imports no other package by path', (packageName) => {
    const violations = filesOf(packageName).filter((file) =>
      importsOf(file).some((name) => /^(\.\.\/)+(packages|[a-z]+\/src)\//.test(name)),
    );
    expect(violations).toEqual([]);
  });

  test.each(['protocol', 'sdk', 'core'])('%s imports no Node modules', (packageName) => {
    const violations = filesOf(packageName).filter((file) =>
      importsOf(file).some((name) => name.startsWith('node:')),
    );
    expect(violations.map((file) => relative(root, file))).toEqual([]);
  });

  test('sdk imports only the wire entry of protocol', () => {
    const violations = filesOf('sdk').flatMap((file) =>
      importsOf(file).filter((name) => !/^\.|^@relay\/protocol\/wire$/.test(name)),
    );
    expect(violations).toEqual([]);
  });

  test('protocol imports only zod, and core only protocol and the shell parser', () => {
    for (const [packageName, allowed] of [
      ['protocol', /^(\.|zod$)/],
      ['core', /^(\.|@relay\/protocol(\/|$)|unbash$)/],
    ] as const) {
      const violations = filesOf(packageName).flatMap((file) =>
        importsOf(file).filter((name) => !allowed.test(name)),
      );
      expect(violations).toEqual([]);
    }
  });
});
