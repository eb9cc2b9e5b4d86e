import { type FollowOptions, framesOf } from './frames.ts';
import type { Http } from './http.ts';
import { anyOf } from './pause.ts';

/**
 * What has changed, never what it has become. `connected` comes first and after each reconnect:
 * hints may have been missed, so it is time to look at everything, as it is after `all`.
 */
export interface Hint {
  readonly kind: 'connected' | 'run' | 'approval' | 'all';
  readonly id?: string;
}

export interface FeedOptions extends FollowOptions {
  readonly signal?: AbortSignal | undefined;
}

/** `GET /v1/feed`, until the signal is aborted or the loop is left. */
export async function* feed(http: Http, options: FeedOptions = {}): AsyncGenerator<Hint, void> {
  const signal = anyOf(options.signal);
  const open = () => http.stream('GET', '/v1/feed', { signal, maxRetries: 0 });
  for await (const { data } of framesOf({ ...options, open, after: 0, signal })) {
    yield JSON.parse(data) as Hint;
  }
}
