/** What a server and the host of a terminal (`host.ts`) say to each other: one JSON object per line. */
import type { AgentSessionEvent } from '@relay/protocol';

/** The first line that the host reads. */
export interface TerminalStart {
  readonly type: 'start';
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly cols: number;
  readonly rows: number;
}

/** Each is answered once. */
export type TerminalRequest =
  /** As it would come from a keyboard. */
  | { readonly type: 'type'; readonly id: number; readonly text: string }
  /** Text, and then Enter. */
  | { readonly type: 'submit'; readonly id: number; readonly text: string }
  /** The whole screen is output again after it. */
  | {
      readonly type: 'resize';
      readonly id: number;
      readonly cols: number;
      readonly rows: number;
    };

/** In order: an answer follows the events that it caused. */
export type TerminalReport =
  | { readonly type: 'started' }
  | { readonly type: 'event'; readonly event: AgentSessionEvent }
  | { readonly type: 'answer'; readonly id: number; readonly error?: string }
  /** The last one. */
  | { readonly type: 'exited'; readonly exitCode: number; readonly signal: number };
