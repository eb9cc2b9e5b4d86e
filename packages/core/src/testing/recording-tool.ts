import type { Tool, ToolContext, ToolOutput } from '../ports.ts';

export interface Execution {
  readonly input: unknown;
  readonly toolCallId: string;
  readonly idempotencyKey: string;
}

export interface RecordingTool extends Tool {
  /** What really happened, whatever anyone stored about it. */
  readonly executions: readonly Execution[];
  /** Executions wait from now on, until `release`. */
  hold(): void;
  release(): void;
}

export interface RecordingToolOptions {
  readonly name: string;
  readonly allowedByDefault?: boolean;
  readonly idempotent?: boolean;
  readonly onUnknown?: 'ask' | 'fail';
  readonly validate?: Tool['validate'];
  execute?(input: unknown, context: ToolContext): Promise<ToolOutput> | ToolOutput;
}

/** A tool that remembers each time it ran, before it does anything else. */
export function createRecordingTool(options: RecordingToolOptions): RecordingTool {
  const executions: Execution[] = [];
  let held = Promise.withResolvers<void>();
  held.resolve();
  return {
    name: options.name,
    description: `Records ${options.name}`,
    inputSchema: { type: 'object' },
    allowedByDefault: options.allowedByDefault ?? false,
    idempotent: options.idempotent ?? false,
    onUnknown: options.onUnknown ?? 'ask',
    executions,
    hold: () => {
      held = Promise.withResolvers<void>();
    },
    release: () => held.resolve(),
    validate: options.validate ?? ((value) => ({ ok: true, value })),
    async execute(input, context) {
      const { toolCallId, idempotencyKey } = context;
      executions.push({ input, toolCallId, idempotencyKey });
      await held.promise;
      return (await options.execute?.(input, context)) ?? { result: { ran: options.name } };
    },
  };
}
