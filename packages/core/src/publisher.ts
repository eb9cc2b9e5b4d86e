import type { Log, Publisher } from './ports/index.ts';

type Publish = Publisher['publish'];

/**
 * One publisher for several observers, by name. An observer that throws is logged and the others are
 * still notified: what they observe is committed, whatever they do with it.
 */
export function combinePublishers(
  observers: Readonly<Record<string, Publish>>,
  log: Pick<Log, 'error'>,
): Publisher {
  const named = Object.entries(observers);
  return {
    publish(runId, events, tenantId) {
      for (const [observer, publish] of named) {
        try {
          publish(runId, events, tenantId);
        } catch (error) {
          log.error('An observer of the journal failed', { observer, runId, error });
        }
      }
    },
  };
}
