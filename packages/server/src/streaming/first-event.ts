/**
 * Before the headers of a run's stream go out, the provider gets a moment to fail: then the answer
 * is a 502 and not a stream that begins with an error.
 */
import { type ErrorCode, RelayError, type StoredEvent } from '@relay/protocol';

type Batches = AsyncGenerator<readonly StoredEvent[], void>;

export interface Opening {
  readonly failure?: RelayError;
  /** Everything, including what was looked at here. */
  readonly batches: AsyncIterable<readonly StoredEvent[]>;
}

const deliveryTimeoutMs = 5_000;

export async function firstEvent(batches: Batches): Promise<Opening> {
  const seen: (readonly StoredEvent[])[] = [];
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<'timeout'>((resolve) => {
    timer = setTimeout(resolve, deliveryTimeoutMs, 'timeout');
  });
  try {
    for (;;) {
      const next = batches.next();
      const arrived = await Promise.race([next, timeout]);
      if (arrived === 'timeout') return { batches: resumed(seen, next, batches) };
      if (arrived.done === true) return { batches: resumed(seen, undefined, batches) };
      seen.push(arrived.value);
      const failure = providerFailure(arrived.value);
      if (failure !== undefined) {
        await batches.return();
        return { failure, batches: resumed(seen, undefined, batches) };
      }
      if (arrived.value.some(isWord)) return { batches: resumed(seen, undefined, batches) };
    }
  } finally {
    clearTimeout(timer);
  }
}

async function* resumed(
  seen: readonly (readonly StoredEvent[])[],
  pending: Promise<IteratorResult<readonly StoredEvent[], void>> | undefined,
  batches: Batches,
): AsyncGenerator<readonly StoredEvent[], void> {
  try {
    yield* seen;
    const next = await pending;
    if (next?.done === true) return;
    if (next !== undefined) yield next.value;
    yield* batches;
  } finally {
    await batches.return();
  }
}

/** Anything that shows that the provider answered, or that the run ended for another reason. */
function isWord(event: StoredEvent): boolean {
  switch (event.type) {
    case 'text.appended':
    case 'reasoning.appended':
    case 'turn.completed':
    case 'run.ended':
      return true;
    default:
      return false;
  }
}

function providerFailure(events: readonly StoredEvent[]): RelayError | undefined {
  if (events.some((event) => event.type !== 'run.ended' && isWord(event))) return undefined;
  const errored = events.find((event) => event.type === 'run.errored');
  if (errored === undefined) return undefined;
  const { code, message } = errored.error;
  return code === 'provider_failed' || code === 'provider_rejected' || code === 'context_exceeded'
    ? new RelayError(code satisfies ErrorCode, message)
    : undefined;
}
