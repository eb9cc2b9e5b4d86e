/** Who is signed in, and what they may do: pages show only that. */
import type { CurrentKey, Scope } from '@relay/protocol/wire';
import { useQuery } from '@tanstack/react-query';
import { client } from './client.ts';
import { queries } from './queries.ts';

export function useAccount() {
  return useQuery({
    queryKey: ['account'],
    queryFn: ({ signal }) => client.keys.current({ signal }),
    // Without it there is no page, and no feed that would say when the server is back.
    refetchInterval: ({ state }) =>
      state.status === 'error' && state.data === undefined ? 3_000 : false,
  });
}

/** What a tab posts to it, the tab itself does not get. */
let signIns: BroadcastChannel | undefined;

/** Tells the other tabs, which share the cookie, who has signed in. */
export function announceSignIn({ parent }: CurrentKey): void {
  signIns?.postMessage(parent);
}

/**
 * A tab that shows what another person may see, or the sign-in, is loaded again when somebody signs in. So is
 * one that the browser kept, as it was, after it was left. Returns what ends that.
 */
export function reloadAfterSignIn(): () => void {
  const channel = new BroadcastChannel('relay-console-sign-in');
  signIns = channel;
  channel.addEventListener('message', ({ data }: MessageEvent<string>) => {
    if (queries.getQueryData<CurrentKey>(['account'])?.parent !== data) location.reload();
  });
  const onShow = ({ persisted }: PageTransitionEvent) => {
    if (persisted) location.reload();
  };
  addEventListener('pageshow', onShow);
  return () => {
    channel.close();
    removeEventListener('pageshow', onShow);
  };
}

/** Whether the person who is signed in has a scope. */
export function useMay(scope: Scope): boolean {
  const { data } = useAccount();
  return data?.scopes.includes(scope) ?? false;
}
