import type { StoredEvent } from '@relay/protocol';
import type { Log, Publisher, RunRef } from './ports/index.ts';

interface Publishing {
  readonly publisher: Publisher;
  readonly log: Pick<Log, 'error'>;
}

/** Publishes committed events. It never throws: they are stored, whether or not they can be published. */
export function publishStored(
  { publisher, log }: Publishing,
  { tenantId, runId }: RunRef,
  events: readonly StoredEvent[],
): void {
  try {
    publisher.publish(runId, events, tenantId);
  } catch (error) {
    log.error('Stored events could not be published', { runId, error });
  }
}

/** One publisher for several observers, by name. One that throws is logged, and the others are notified. */
export function combinePublishers(
  observers: Readonly<Record<string, Publisher['publish']>>,
  log: Pick<Log, 'error'>,
): Publisher {
  const entries = Object.entries(observers);
  return {
    publish(runId, events, tenantId) {
      for (const [observer, publish] of entries) {
        try {
          publish(runId, events, tenantId);
        } catch (error) {
          log.error('An observer of the journal failed', { observer, runId, error });
        }
      }
    },
  };
}
