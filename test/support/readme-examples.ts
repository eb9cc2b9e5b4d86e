/** The examples of a README: each program, and under it what it prints. */
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

export interface Example {
  readonly title: string;
  readonly code: string;
  readonly output: string;
}

/** `path` from the root of the repository. */
export class ReadmeExamples {
  readonly path: string;
  readonly text: string;
  readonly all: readonly Example[];

  constructor(path: string) {
    this.path = path;
    this.text = readFileSync(join(root, path), 'utf8');
    this.all = [
      ...this.text.matchAll(/^## (.+)$[^#]*?```ts\n([\s\S]*?)```\n\n```text\n([\s\S]*?)```/gm),
    ].map(([, title = '', code = '', output = '']) => ({ title, code, output }));
  }

  /** What a reader would stumble over: programs without their output, long ones, casts. */
  get faults(): string[] {
    const programs = this.text.match(/```ts\n/g)?.length ?? 0;
    const unread = programs - this.all.length;
    return [
      ...(programs === 0 ? ['There are no examples'] : []),
      ...(unread === 0 ? [] : [`${unread} examples do not show what they print`]),
      ...this.all.flatMap(({ title, code }) => [
        ...(code.trimEnd().split('\n').length > 25 ? [`${title}: more than 25 lines`] : []),
        ...(/\bany\b|\bas (?!const)/.test(code) ? [`${title}: evades its types`] : []),
      ]),
    ];
  }
}

/** What the compiler has to say about all of these documents' examples in a strict program. */
export function compileExamples(
  documents: readonly Pick<ReadmeExamples, 'path' | 'all'>[],
  compilerOptions: Readonly<Record<string, boolean>> = {},
): string {
  // Inside the repository, so that it finds what a program would have installed.
  mkdirSync(join(root, '.cache'), { recursive: true });
  const program = mkdtempSync(join(root, '.cache', 'readme-'));
  for (const { path, all } of documents) {
    for (const [index, { code }] of all.entries()) {
      writeFileSync(join(program, `${path.replaceAll('/', '-')}-${index + 1}.ts`), code);
    }
  }
  const config = {
    extends: '../../tsconfig.test.json',
    include: ['*.ts', '../../packages/*/src/**/*.d.ts'],
    compilerOptions,
  };
  writeFileSync(join(program, 'tsconfig.json'), JSON.stringify(config));
  const errors = compile(program);
  rmSync(program, { recursive: true });
  return errors;
}

/**
 * What the compiler has to say about a folder with a `tsconfig.json` that imports the packages. One thread:
 * several would each check what all of the sources share, for twice the time of the processor.
 */
export function compile(folder: string): string {
  const tsc = join(root, 'node_modules/.bin/tsc');
  const options = { cwd: root, encoding: 'utf8', env: { ...process.env, GOGC: '400' } } as const;
  const { stdout } = spawnSync(tsc, ['-p', folder, '--singleThreaded'], options);
  return stdout;
}

export interface Ran {
  readonly exit: unknown;
  readonly output: string;
  readonly errors: string;
}

/** Runs a program as it stands, with nothing but Node. */
export async function runExample(code: string, env: NodeJS.ProcessEnv): Promise<Ran> {
  const flags = ['--no-warnings', '--input-type=module-typescript'];
  const child = spawn(process.execPath, [...flags, '-e', code], { cwd: root, env });
  const running = { output: '', errors: '' };
  child.stdout.on('data', (chunk: Buffer) => (running.output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (running.errors += chunk.toString()));
  const exit = await new Promise((resolve) => child.once('close', resolve));
  return { exit, output: running.output.trimEnd(), errors: running.errors };
}
