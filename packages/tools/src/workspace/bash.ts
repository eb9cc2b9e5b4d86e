/** `bash`: a command in the tenant's workspace, without the environment of the server. */
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { mkdir, realpath } from 'node:fs/promises';
import { join, relative, resolve } from 'node:path';
import type { Readable } from 'node:stream';
import { suggestedPattern, type Tool, type ToolContext } from '@relay/core';
import { defined, type Preview } from '@relay/protocol';
import { z } from 'zod';
import {
  cleanEnvironment,
  type CommandLine,
  type ExitStatus,
  inBubblewrap,
  isWithin,
  ProcessGroup,
  protectPaths,
  readerEnvironment,
  type Sandbox,
} from '@relay/processes';
import { defineTool } from '../define-tool.ts';
import { type CapturedOutput, CommandOutput } from './command-output.ts';
import { hiddenNameIn } from './guards.ts';
import { childPath, openResolved, PathRefused, resolveAllowed, resolvePaths } from './paths.ts';
import { checkRepositories, mayUseGit } from './repositories.ts';
import { Progress } from '../progress.ts';

const { O_DIRECTORY } = constants;
const defaultTimeoutMs = 120_000;
const maxTimeoutMs = 600_000;
const outputLimits = { shownChars: 12_000, keptBytes: 64 * 1024 * 1024 };
const progressLimits = { everyMs: 250, maxChars: 20_000 };

const schema = z.strictObject({
  command: z.string().min(1).max(100_000).describe('The command, as for bash -c'),
  timeoutMs: z
    .int()
    .min(1)
    .max(maxTimeoutMs)
    .optional()
    .describe(`After how many milliseconds it is stopped (default: ${defaultTimeoutMs})`),
  cwd: z
    .string()
    .min(1)
    .max(4_096)
    .optional()
    .describe('The folder in the workspace to run it in (default: the workspace itself)'),
});

export interface BashOptions {
  /** The workspace, as a real path. */
  readonly root: string;
  /** The folder for output that is too long to be shown. */
  readonly outputs: string;
  /** The home folder of commands, outside the workspace. It is created if it does not exist. */
  readonly home: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Names of variables to pass on to commands besides the harmless ones. */
  readonly pass?: readonly string[];
  /** Folders of Relay and of other tenants: commands may not name them, and a sandbox hides them. */
  readonly hidden?: () => readonly string[];
  readonly sandbox?: Sandbox;
}

export function createBash(options: BashOptions): Tool {
  const { root, home, hidden = () => [] } = options;
  const ownEnvironment = () =>
    cleanEnvironment({ env: options.env, pass: options.pass ?? [], home, workspace: root });
  /** Undefined if the command is not about git. */
  const checkGit = (command: string) =>
    mayUseGit(command) ? checkRepositories(root, ownEnvironment()) : undefined;
  const { sandbox } = options;
  const isSandboxed = (byRule: boolean) =>
    sandbox !== undefined && (sandbox.commands === 'all' || byRule);
  /** What an approval is bound to: changed links or another sandbox refuse the command. */
  const preview = async (folder: string, command: string): Promise<Preview> => {
    const links = await linksIn(root, folder, command);
    const execution = { folder, sandboxed: isSandboxed(false) };
    const digest = createHash('sha256').update(JSON.stringify({ links, execution })).digest('hex');
    return { links, execution, digest };
  };
  return defineTool({
    name: 'bash',
    description:
      'Runs a command in bash, in the workspace. It has no input, and is stopped after a timeout ' +
      'together with everything it started. Long output is cut in the middle.',
    schema,
    kinds: { command: 'command', cwd: 'path' },
    sensitive: ['command', 'cwd'],
    async resolvePaths({ command, cwd }) {
      const resolution = await resolvePaths(root, { cwd });
      if (!resolution.ok) return resolution;
      const folder = resolution.resolvedPaths?.paths['cwd'] ?? root;
      const named = await hiddenNameIn(command, folder, { hidden: hidden(), home });
      if (named !== undefined) return { ok: false, problem: refusedName(named) };
      return { ...resolution, ...defined({ needsApproval: (await checkGit(command))?.problem }) };
    },
    preview: ({ command }, { cwd = root }) => preview(cwd, command),
    derivePermission: ({ command, cwd }) => {
      const pattern = suggestedPattern(command);
      const isPlain = cwd === undefined || /^[\w./-]+$/.test(cwd);
      if (pattern === undefined || !isPlain) return undefined;
      return { tool: 'bash', params: { command: pattern, ...(cwd === undefined ? {} : { cwd }) } };
    },
    async execute({ command, timeoutMs = defaultTimeoutMs, cwd = '.' }, context) {
      const resolved = await resolveAllowed(root, 'cwd', cwd, context);
      // Held open, so that the command starts in this folder even if the path is changed meanwhile.
      const folder = await openResolved(resolved, O_DIRECTORY).catch((error: unknown) => {
        throw explained(error, cwd);
      });
      try {
        context.signal.throwIfAborted();
        const { previewDigest } = context;
        if (
          previewDigest !== undefined &&
          previewDigest !== (await preview(resolved, command)).digest
        ) {
          throw new PathRefused(
            'A link that the command names, or the sandbox, was changed after the approval was requested',
          );
        }
        const named = await hiddenNameIn(command, resolved, { hidden: hidden(), home });
        if (named !== undefined) throw new PathRefused(refusedName(named));
        const byRule = context.allowedBy === 'rule';
        const git = byRule ? await checkGit(command) : undefined;
        if (git?.problem !== undefined) {
          throw new PathRefused(`A rule does not suffice for this command: ${git.problem}`);
        }
        await mkdir(home, { recursive: true, mode: 0o700 });
        const line: CommandLine = {
          file: 'bash',
          args: ['--noprofile', '--norc', '-c', '--', command],
          cwd: resolved,
          env: { ...ownEnvironment(), ...(byRule ? readerEnvironment(git?.folders) : {}) },
        };
        if (sandbox === undefined || !isSandboxed(byRule)) {
          const inFolder = { ...line, cwd: childPath(folder, resolved, '.') };
          return await run(inFolder, timeoutMs, options.outputs, context);
        }
        const protectedPaths = byRule ? await protectPaths(root, git?.folders ?? []) : undefined;
        try {
          const view = { root, home, hidden: hidden(), ...defined({ protectedPaths }) };
          const sandboxed = inBubblewrap(line, sandbox, view);
          return await run(sandboxed, timeoutMs, options.outputs, context);
        } finally {
          await protectedPaths?.release();
        }
      } finally {
        await folder.close();
      }
    },
  });
}

/** Words that could be paths. Approvers are shown where they lead, however the command is written. */
const word = /[^\s;&|<>()"'`$=,:]+/g;
const maxWords = 200;

async function linksIn(root: string, cwd: string, command: string) {
  const words = [...new Set(command.match(word))].slice(0, maxWords);
  const found = await Promise.all(words.map((path) => linkBehind(root, cwd, path)));
  return found.filter((link) => link !== undefined);
}

async function linkBehind(root: string, cwd: string, path: string) {
  const named = resolve(cwd, path);
  if (!isWithin(root, named)) return undefined;
  const real = await realpath(named).catch(() => undefined);
  if (real === undefined || real === named) return undefined;
  return { name: 'command', path, target: isWithin(root, real) ? relative(root, real) : real };
}

function refusedName(word: string): string {
  return `The command names ${JSON.stringify(word)}, which belongs to Relay or shows the environment of a process`;
}

function explained(error: unknown, path: string): unknown {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT') return new PathRefused(`There is no folder ${path}`);
  return code === 'ENOTDIR' ? new PathRefused(`${path} is not a folder`) : error;
}

type StopReason = 'canceled' | 'timeout' | 'output';

async function run(line: CommandLine, timeoutMs: number, outputs: string, context: ToolContext) {
  const { signal } = context;
  const group = new ProcessGroup(line);
  let stopped: StopReason | undefined;
  const stop = (reason: StopReason): void => {
    stopped ??= reason;
    void group.end();
  };
  const onAbort = (): void => stop('canceled');
  const timer = setTimeout(() => stop('timeout'), timeoutMs);
  signal.addEventListener('abort', onAbort);
  const progress = new Progress(context.progress, progressLimits);
  const capture = (stream: Readable, name: string): Promise<CapturedOutput> => {
    const file = join(outputs, context.runId, `${fileName(context.toolCallId)}.${name}`);
    const output = new CommandOutput(file, outputLimits);
    return consume(stream, output, (text) => {
      progress.add(text);
      if (output.isTooMuch) stop('output');
    });
  };
  try {
    const [status, stdout, stderr] = await Promise.all([
      group.ended(),
      capture(group.stdout, 'stdout'),
      capture(group.stderr, 'stderr'),
    ]);
    if (stopped === 'canceled') signal.throwIfAborted();
    return report({ status, stdout, stderr, stopped, timeoutMs, outputs });
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
    progress.end();
    await group.end();
  }
}

async function consume(
  stream: Readable,
  output: CommandOutput,
  onText: (text: string) => void,
): Promise<CapturedOutput> {
  try {
    for await (const chunk of stream) {
      // Output above the limit is read and dropped until the command has ended.
      if (!output.isTooMuch) onText(await output.add(chunk as Buffer));
    }
  } catch (error) {
    // The pipe was closed here because a process would not close it.
    if ((error as NodeJS.ErrnoException).code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error;
  }
  return output.end();
}

/** A provider's id may contain anything, and two ids must not give the same name. */
function fileName(toolCallId: string): string {
  if (/^[\w-]{1,100}$/.test(toolCallId)) return toolCallId;
  const digest = createHash('sha256').update(toolCallId).digest('hex').slice(0, 16);
  return `${toolCallId.replaceAll(/[^\w-]/g, '_').slice(0, 80)}.${digest}`;
}

interface Report {
  readonly status: ExitStatus;
  readonly stdout: CapturedOutput;
  readonly stderr: CapturedOutput;
  readonly stopped: StopReason | undefined;
  readonly timeoutMs: number;
  readonly outputs: string;
}

function report({ status, stdout, stderr, stopped, timeoutMs, outputs }: Report) {
  const { exitCode, signal } = status;
  const notes = [
    ...(stopped === 'timeout' ? [`Stopped after ${timeoutMs} ms.`] : []),
    ...(stopped === 'output' ? ['Stopped because of too much output.'] : []),
    ...noteOn('stdout', stdout, outputs),
    ...noteOn('stderr', stderr, outputs),
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

function noteOn(name: string, { omitted, bytes, file }: CapturedOutput, outputs: string): string[] {
  if (file === undefined) return [];
  const where = inOutputs(file, outputs);
  return [
    `${omitted} characters of ${name} are not shown; all ${bytes} bytes are kept in ${where}.`,
  ];
}

/** Relative to the data folder, whose own path is known to the operator only. */
function inOutputs(file: string, outputs: string): string {
  return `outputs${file.slice(outputs.length)}`;
}
