/** Whom the chat talks to: the same for the terminal, with a key or without. */
import type { RunStreamEvent } from '@relay/sdk';
import type { Decision, Request } from './request.ts';

export interface Turn extends AsyncIterable<RunStreamEvent> {
  /** What is asked by an approval; undefined if it has been answered already. */
  request(
    event: Extract<RunStreamEvent, { type: 'approval_requested' }>,
  ): Promise<Request | undefined>;
  /** A sentence says why the answer was not taken. */
  answer(request: Request, decision: Decision): Promise<string | undefined>;
  /** Nobody is here to answer. */
  leaveOpen(request: Request): Promise<void>;
  cancel(): Promise<void>;
}

export interface Partner {
  say(message: string): Promise<Turn>;
  /** What to type to go on another day. */
  readonly resumeWith: string | undefined;
}
