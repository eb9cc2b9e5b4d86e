/** The commands in a run's inbox. The lease holder moves them into the journal. */
import type {
  Decider,
  MessageContent,
  MessageMode,
  OutcomeAnswer,
  ReceivedMessage,
  Sender,
} from '@relay/protocol';
import type { EditedCall } from './approvals.ts';

export type RunCommand =
  | {
      readonly kind: 'decision';
      readonly approvalId: string;
      readonly approved: boolean;
      readonly always: boolean;
      readonly reason: string | null;
      /** For an approval of kind `outcome`; with the call's result if it is `completed`. */
      readonly outcome?: OutcomeAnswer;
      readonly output?: unknown;
      readonly edited?: EditedCall;
      /** For an approval of kind `question`. */
      readonly answer?: unknown;
      readonly by: Decider;
    }
  /** A client posted the result of a call; it is stored with the call. */
  | { readonly kind: 'result'; readonly toolCallId: string; readonly context?: string }
  | { readonly kind: 'cancel'; readonly reason: string; readonly by: Decider }
  | MessageCommand
  /** Until a `resume` follows, no model is called, except for the last answer at a limit. */
  | { readonly kind: 'pause' }
  | { readonly kind: 'resume' };

export type DecisionCommand = Extract<RunCommand, { kind: 'decision' }>;

/** A message for the root agent. Its mode says at which boundary the run takes it. */
export interface MessageCommand extends Readonly<ReceivedMessage> {
  readonly kind: 'message';
  readonly mode: MessageMode;
  readonly from: Sender;
  /** Unset for a direct message. */
  readonly channel?: string | undefined;
  readonly content: MessageContent;
}

export interface QueuedRunCommand<Command extends RunCommand = RunCommand> {
  readonly id: string;
  readonly command: Command;
}

/**
 * Whether a suspended run can continue because of the command. The others wait in its inbox: a message
 * until the results are there that the run waits for, a pause until there is something to pause.
 */
export function wakesSuspendedRun({ kind }: RunCommand): boolean {
  return kind !== 'message' && kind !== 'pause';
}
