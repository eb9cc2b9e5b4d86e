/** What can be done with a session now, and why something cannot. */
import type { DeliveryMode, Session } from '@relay/sdk';

export type Operation = 'pause' | 'resume' | 'fork' | 'snapshot' | 'release' | 'cancel';

/** What a session declares, whatever its status is. */
function declares({ capabilities }: Session, operation: Operation): boolean {
  // Whether a program can stop its turn is not declared: it answers the command.
  return operation === 'cancel' || capabilities.lifecycle[operation] === true;
}

const verbs: Readonly<Record<Operation, string>> = {
  pause: 'be paused',
  resume: 'be resumed',
  fork: 'be forked',
  snapshot: 'be saved as a snapshot',
  release: 'be released',
  cancel: 'be canceled',
};

/** Why the operation is not possible; undefined if it is. */
export function whyNot(
  session: Session,
  operation: Operation,
  mayRun: boolean,
): string | undefined {
  const { status } = session;
  if (!mayRun) return 'You may only look: this needs the scope runs';
  if (!declares(session, operation)) {
    return `This session cannot ${verbs[operation]}: it does not declare lifecycle.${operation}`;
  }
  if (status === 'released') return 'The session has ended';
  if (status === 'releasing' && operation !== 'release') return 'The session is ending';
  switch (operation) {
    case 'pause':
      return status === 'paused' ? 'The session is paused already' : unreachable(session);
    case 'resume':
      return status === 'paused' ? undefined : 'The session is not paused';
    case 'cancel':
      return isBusy(session) ? undefined : 'No turn is going on';
    case 'fork':
    case 'snapshot':
      return unreachable(session);
    case 'release':
      return undefined;
  }
}

/** A native session needs no program that answers. */
function unreachable({ status, harness }: Session): string | undefined {
  if (harness === 'native') return undefined;
  if (status === 'offline') return 'The session is offline';
  return status === 'failed' ? 'The session has failed' : undefined;
}

function isBusy({ status, activeRunId }: Session): boolean {
  return (
    status === 'active' ||
    status === 'waiting' ||
    status === 'blocked' ||
    (status === 'paused' && activeRunId !== undefined)
  );
}

export function hasTerminal({ capabilities }: Session): boolean {
  return capabilities.events.emits.includes('terminal.output');
}

/** Why no message can be sent to it. */
export function whyNoMessage(session: Session, mayRun: boolean): string | undefined {
  if (!mayRun) return 'You may only look: sending needs the scope runs';
  if (session.status === 'released') return 'The session has ended. It receives no more messages';
  return session.status === 'releasing' ? 'The session is ending' : undefined;
}

export const modes: readonly {
  readonly mode: DeliveryMode;
  readonly label: string;
  readonly about: string;
}[] = [
  { mode: 'on-idle', label: 'When idle', about: 'Enters when the session has nothing to do.' },
  {
    mode: 'immediate',
    label: 'Immediately',
    about: 'Interrupts the running model call. A tool that has started is finished first.',
  },
  {
    mode: 'next-tool-call',
    label: 'After the next tools',
    about: 'Enters right after the results of the next tool calls, else when idle.',
  },
  {
    mode: 'next-message',
    label: 'Before the next model call',
    about: 'Enters before the model is called the next time.',
  },
  { mode: 'manual', label: 'Manually', about: 'Waits in the queue until a person delivers it.' },
];

/** The mode of a message without one. */
export function defaultMode({ capabilities }: Session): DeliveryMode {
  const { modes } = capabilities.delivery;
  return modes.includes('on-idle') ? 'on-idle' : (modes[0] ?? 'on-idle');
}
