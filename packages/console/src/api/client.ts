import { createClient, type RelayClient } from '@relay/sdk';

/** The browser adds the cookie of the sign-in to each request: no key is ever in a script's reach. */
export const client: RelayClient = createClient({
  baseUrl: location.origin,
  // The pages say at once that the server is down, and try again.
  unreachableTimeoutMs: 0,
});
