/** `bash`: a command in the tenant's folder, with nothing of the server's own around it. */
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { suggestedPattern, type Tool, type ToolContext } from '@relay/core';
import { z } from 'zod';
import { defineTool } from '../define-tool.ts';
import { inBubblewrap, type Sandbox } from './bwrap.ts';
import { CommandOutput, type Said } from './command-output.ts';
import { cleanEnvironment } from './environment.ts';
import { locateIn, placeOf } from './resolved-paths.ts';
import { openPlace, PlaceRefused, within } from './place.ts';
import { type CommandLine, type Ended, ProcessGroup } from './process-group.ts';
import { Progress } from './progress.ts';

const { O_DIRECTORY } = constants;
const defaultTimeoutMs = 120_000;
const maxTimeoutMs = 600_000;
const bounds = { shownChars: 12_000, keptBytes: 64 * 1024 * 1024 };
const progressBounds = { everyMs: 250, maxChars: 20_000 };

const schema = z.strictObject({
  command: z.string().min(1).max(100_000).describe('What bash runs, as after bash -c'),
  timeoutMs: z
    .int()
    .min(1)
    .max(maxTimeoutMs)
    .optional()
    .describe(`After how many milliseconds it is ended (default: ${defaultTimeoutMs})`),
  cwd: z
    .string()
    .min(1)
    .max(4_096)
    .optional()
    .describe('The folder in the workspace to run it in (default: the workspace itself)'),
});

export interface BashOptions {
  /** The workspace: a real path. */
  readonly root: string;
  /** Where output goes that is too long to be shown. */
  readonly outputs: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Names of variables that commands get besides the few that are harmless. */
  readonly pass?: readonly string[];
  readonly sandbox?: Sandbox;
}

export function createBash(options: BashOptions): Tool {
  const { root } = options;
  return defineTool({
    name: 'bash',
    description:
      'Runs a command in bash, in the workspace. It cannot read input, and is ended after a time ' +
      'together with everything it started. Long output is cut in the middle.',
    schema,
    kinds: { command: 'command', cwd: 'path' },
    sensitive: ['command', 'cwd'],
    inWorkspace: true,
    locate: ({ cwd }) => locateIn(root, { cwd }),
    derivePermission: ({ command, cwd }) => {
      const pattern = suggestedPattern(command);
      const isPlain = cwd === undefined || /^[\w./-]+$/.test(cwd);
      if (pattern === undefined || !isPlain) return undefined;
      return { tool: 'bash', params: { command: pattern, ...(cwd === undefined ? {} : { cwd }) } };
    },
    async execute({ command, timeoutMs = defaultTimeoutMs, cwd = '.' }, context) {
      const place = await placeOf(root, { name: 'cwd', path: cwd }, context);
      // Held open, so that it begins in this very folder, whatever becomes of the path meanwhile.
      const folder = await openPlace(place, O_DIRECTORY).catch((error: unknown) => {
        throw explained(error, cwd);
      });
      try {
        context.signal.throwIfAborted();
        const line: CommandLine = {
          file: 'bash',
          args: ['--noprofile', '--norc', '-c', '--', command],
          cwd: place,
          env: cleanEnvironment({ env: options.env, pass: options.pass ?? [], home: root }),
        };
        const { sandbox } = options;
        const begun =
          sandbox === undefined
            ? { ...line, cwd: within(folder, place, '.') }
            : inBubblewrap(root, line, sandbox);
        return await run(begun, { timeoutMs, outputs: options.outputs, context });
      } finally {
        await folder.close();
      }
    },
  });
}

function explained(error: unknown, said: string): unknown {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT') return new PlaceRefused(`There is no folder ${said}`);
  return code === 'ENOTDIR' ? new PlaceRefused(`${said} is not a folder`) : error;
}

interface Running {
  readonly timeoutMs: number;
  readonly outputs: string;
  readonly context: ToolContext;
}

type Stopped = 'canceled' | 'timeout' | 'output';

async function run(line: CommandLine, { timeoutMs, outputs, context }: Running) {
  const { signal } = context;
  const group = new ProcessGroup(line);
  let stopped: Stopped | undefined;
  const stop = (why: Stopped): void => {
    stopped ??= why;
    void group.end();
  };
  const onAbort = (): void => stop('canceled');
  const timer = setTimeout(() => stop('timeout'), timeoutMs);
  signal.addEventListener('abort', onAbort);
  const progress = new Progress(context.progress, progressBounds);
  const listen = (stream: Readable, name: string): Promise<Said> => {
    const file = join(outputs, context.runId, `${fileName(context.toolCallId)}.${name}`);
    const output = new CommandOutput(file, bounds);
    return hear(stream, output, (text) => {
      progress.add(text);
      if (output.tooMuch) stop('output');
    });
  };
  try {
    const [ended, stdout, stderr] = await Promise.all([
      group.ended(),
      listen(group.stdout, 'stdout'),
      listen(group.stderr, 'stderr'),
    ]);
    if (stopped === 'canceled') {
      signal.throwIfAborted();
    }
    return report({ ended, stdout, stderr, stopped, timeoutMs, outputs });
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
    progress.end();
    await group.end();
  }
}

async function hear(
  stream: Readable,
  output: CommandOutput,
  heard: (text: string) => void,
): Promise<Said> {
  try {
    for await (const piece of stream) {
      // What is beyond the limit is read and dropped until the command has ended.
      if (!output.tooMuch) heard(await output.take(piece as Buffer));
    }
  } catch (error) {
    // The pipe was closed on somebody who would not let go of it.
    if ((error as NodeJS.ErrnoException).code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error;
  }
  return output.end();
}

/** A provider's id may hold anything, and two of them must not become one. */
function fileName(toolCallId: string): string {
  if (/^[\w-]{1,100}$/.test(toolCallId)) return toolCallId;
  const digest = createHash('sha256').update(toolCallId).digest('hex').slice(0, 16);
  return `${toolCallId.replaceAll(/[^\w-]/g, '_').slice(0, 80)}.${digest}`;
}

interface Report {
  readonly ended: Ended;
  readonly stdout: Said;
  readonly stderr: Said;
  readonly stopped: Stopped | undefined;
  readonly timeoutMs: number;
  readonly outputs: string;
}

function report({ ended, stdout, stderr, stopped, timeoutMs, outputs }: Report) {
  const { exitCode, signal } = ended;
  const notes = [
    ...(stopped === 'timeout' ? [`It was ended after ${timeoutMs} ms.`] : []),
    ...(stopped === 'output' ? ['It was ended because it said too much.'] : []),
    ...kept('stdout', stdout, outputs),
    ...kept('stderr', stderr, outputs),
    exitCode === null ? `Ended by ${signal}.` : `Exit code ${exitCode}.`,
  ];
  return {
    context: [
      stdout.text.replace(/\n$/, ''),
      ...(stderr.text === '' ? [] : [`stderr:\n${stderr.text.replace(/\n$/, '')}`]),
      ...notes,
    ]
      .filter((part) => part !== '')
      .join('\n'),
    result: {
      exitCode,
      ...(signal === null ? {} : { signal }),
      stdout: stdout.text,
      stderr: stderr.text,
      ...(stopped === 'timeout' ? { timedOut: true } : {}),
      ...(stdout.file === undefined ? {} : { stdoutFile: inOutputs(stdout.file, outputs) }),
      ...(stderr.file === undefined ? {} : { stderrFile: inOutputs(stderr.file, outputs) }),
    },
  };
}

function kept(name: string, { omitted, bytes, file }: Said, outputs: string): string[] {
  if (file === undefined) return [];
  const where = inOutputs(file, outputs);
  return [
    `${omitted} characters of ${name} are not shown; all ${bytes} bytes are kept in ${where}.`,
  ];
}

/** As it is called in the data folder: where that is concerns the operator alone. */
function inOutputs(file: string, outputs: string): string {
  return `outputs${file.slice(outputs.length)}`;
}
