/** The software bill of materials lists what runs in production. */
import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';

interface Bom {
  readonly bomFormat: string;
  readonly components: readonly {
    name: string;
    version: string;
    purl: string;
    'bom-ref': string;
  }[];
  readonly dependencies: readonly { ref: string; dependsOn: readonly string[] }[];
}

it('npm run sbom prints a CycloneDX document with every production dependency', () => {
  const bom = JSON.parse(
    execFileSync('npm', ['run', '-s', 'sbom'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }),
  ) as Bom;
  expect(bom.bomFormat).toBe('CycloneDX');
  const names = new Set(bom.components.map(({ name }) => name));
  // pg, uuidv7 and zod are also used by tests.
  for (const name of ['fastify', 'node', 'pg', 'server', 'uuidv7', 'zod'])
    expect(names).toContain(name);
  for (const name of ['vitest', 'oxlint', 'typescript']) expect(names).not.toContain(name);
  for (const { purl, version } of bom.components) {
    expect(purl).toMatch(/^pkg:npm\//);
    expect(version).toMatch(/^\d+\.\d+\.\d+/);
  }
  const refs = new Set(bom.dependencies.map(({ ref }) => ref));
  for (const { dependsOn } of bom.dependencies) {
    for (const each of dependsOn) expect(refs).toContain(each);
  }
});
