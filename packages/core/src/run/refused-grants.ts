import type { EventOf, RunEvent } from '@relay/protocol';

type Started = EventOf<'tool.started'>;

interface Anew {
  readonly again: (started: Started) => RunEvent;
  readonly word: (started: Started) => RunEvent;
}

/**
 * What takes the places of calls that were to start by a counted grant: each is decided again. The
 * sub-agent of one that was delegated does not start either; a word about it keeps that place.
 */
export function decidedAgain(events: readonly RunEvent[], { again, word }: Anew): RunEvent[] {
  const replaced = [...events];
  for (const [n, event] of events.entries()) {
    if (event.type !== 'tool.started' || event.rule?.counted !== true) continue;
    const instead = again(event);
    const next = events[n + 1];
    const delegates =
      next?.type === 'agent.started' && next.spawned?.toolCallId === event.toolCallId;
    if (delegates && instead.type !== 'tool.started') {
      replaced.splice(n, 2, word(event), instead);
    } else {
      replaced[n] = instead;
    }
  }
  return replaced;
}
