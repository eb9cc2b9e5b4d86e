import type { Tool, ToolContext, ToolOutput } from '../../src/ports/index.ts';

export interface Execution {
  readonly input: unknown;
  readonly toolCallId: string;
  readonly idempotencyKey: string;
}

export interface RecordingTool extends Tool {
  /** What really happened, whatever anyone stored about it. */
  readonly executions: readonly Execution[];
  /** Executions wait from now on, until `release` or until their run is canceled. */
  hold(): void;
  release(): void;
  /** Executions throw from now on; `undefined` ends that. */
  failWith(error: Error | undefined): void;
  /** Executions report these texts from now on, before they wait. */
  reportProgress(texts: readonly string[]): void;
}

export interface RecordingToolOptions {
  readonly name: string;
  readonly allowedByDefault?: boolean;
  readonly needsApproval?: boolean;
  readonly idempotent?: boolean;
  readonly onUnknown?: 'ask' | 'fail';
  readonly validate?: Tool['validate'];
  readonly derivePermission?: NonNullable<Tool['derivePermission']>;
  execute?(input: unknown, context: ToolContext): Promise<ToolOutput> | ToolOutput;
}

/** A tool that remembers each time it ran, before it does anything else. */
export function createRecordingTool(options: RecordingToolOptions): RecordingTool {
  const { name, derivePermission } = options;
  const executions: Execution[] = [];
  let held: { readonly promise: Promise<void>; resolve(): void } | undefined;
  let failure: Error | undefined;
  let progress: readonly string[] = [];
  return {
    name,
    description: `Records ${name}`,
    inputSchema: { type: 'object' },
    allowedByDefault: options.allowedByDefault ?? false,
    needsApproval: options.needsApproval ?? false,
    idempotent: options.idempotent ?? false,
    onUnknown: options.onUnknown ?? 'ask',
    executions,
    hold() {
      held ??= Promise.withResolvers();
    },
    release() {
      held?.resolve();
      held = undefined;
    },
    failWith(error) {
      failure = error;
    },
    reportProgress(texts) {
      progress = texts;
    },
    validate: options.validate ?? ((value) => ({ ok: true, value })),
    async execute(input, context) {
      const { toolCallId, idempotencyKey, signal } = context;
      executions.push({ input, toolCallId, idempotencyKey });
      for (const line of progress) context.progress(line);
      if (held !== undefined) await Promise.race([held.promise, aborted(signal)]);
      if (failure !== undefined) throw failure;
      return (await options.execute?.(input, context)) ?? { result: { ran: name } };
    },
    ...(derivePermission === undefined ? {} : { derivePermission }),
  };
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    const stop = (): void => reject(new Error('The call was aborted'));
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
  });
}
