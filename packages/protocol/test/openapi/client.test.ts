/** Clients that are generated from the OpenAPI document compile, and wrong uses of them do not. */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openApiDocument } from '../../src/openapi/document.ts';

interface ValidatorModule {
  readonly Validator: new () => {
    readonly version: string;
    validate(document: object): Promise<{ valid: boolean; errors?: unknown }>;
  };
}

const validatorModule = import.meta.resolve('@seriousme/openapi-schema-validator');
const manifest = fileURLToPath(import.meta.resolve('openapi-typescript/package.json'));
const generator = join(manifest, '../bin/cli.js');
const compiler = fileURLToPath(import.meta.resolve('typescript/bin/tsc'));
const here = (name: string) => fileURLToPath(new URL(name, import.meta.url));
/** Inside the package, so that the client finds its dependencies. */
const cache = here('../../node_modules/.cache');
const compilerOptions = {
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  module: 'nodenext',
  target: 'es2023',
  lib: ['es2023', 'dom'],
  types: [],
  noEmit: true,
  allowImportingTsExtensions: true,
  skipLibCheck: true,
};

it('the OpenAPI document is valid OpenAPI 3.1', async () => {
  const { Validator } = (await import(validatorModule)) as ValidatorModule;
  const validator = new Validator();
  const document = JSON.parse(JSON.stringify(openApiDocument('1.2.3'))) as object;
  expect(await validator.validate(document)).toEqual({ valid: true });
  expect(validator.version).toBe('3.1');
});

describe('a client that openapi-typescript generates', () => {
  let folder: string;
  beforeAll(() => {
    mkdirSync(cache, { recursive: true });
    folder = mkdtempSync(join(cache, 'openapi-'));
    writeFileSync(join(folder, 'openapi.json'), JSON.stringify(openApiDocument('1.2.3')));
    const args = [generator, 'openapi.json', '-o', 'schema.ts'];
    execFileSync(process.execPath, args, { cwd: folder, stdio: 'pipe' });
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions }));
  }, 60_000);
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  function compile(): string {
    try {
      execFileSync(process.execPath, [compiler, '-p', folder], { stdio: 'pipe' });
      return '';
    } catch (error) {
      return String((error as { stdout: Buffer }).stdout);
    }
  }

  it(
    'compiles in strict mode with a program that uses the main routes',
    { timeout: 60_000 },
    () => {
      cpSync(here('client-program.ts.txt'), join(folder, 'program.ts'));
      expect(compile()).toBe('');
    },
  );

  it('types numbers as numbers, and JSON values without recursion', () => {
    const schema = readFileSync(join(folder, 'schema.ts'), 'utf8');
    expect(schema).toMatch(/Json: unknown;/);
    expect(schema).toMatch(/limit\?: number;/);
    expect(schema).not.toMatch(/: (?:number \| string|string \| number);/);
  });
});
