/** Sign-in with an API key, or with the one-time link that the address contains. */
import type { CurrentKey } from '@relay/protocol/wire';
import { useMutation } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { client } from '../api/client.ts';
import { Button } from '../ui/button.tsx';
import { Field, Input } from '../ui/form.tsx';
import { errorText } from '../ui/notice.tsx';

interface Props {
  readonly hasEnded: boolean;
  readonly onSignIn: (account: CurrentKey) => void;
}

export function SignIn({ hasEnded, onSignIn }: Props) {
  const [apiKey, setApiKey] = useState('');
  const signIn = useMutation({
    mutationFn: (body: { apiKey: string } | { link: string }) => client.console.login(body),
    onSuccess: (account) => {
      setApiKey('');
      onSignIn(account);
    },
  });
  const { mutate } = signIn;

  useEffect(() => {
    // The fragment is sent to no server; it leaves the address bar and the history at once.
    const link = location.hash.slice(1);
    if (link === '') return;
    history.replaceState(null, '', location.pathname);
    mutate({ link });
  }, [mutate]);

  return (
    <main className="flex min-h-full items-center justify-center p-4">
      <form
        className="flex w-full max-w-sm flex-col gap-4 rounded border border-line bg-surface p-6"
        onSubmit={(event) => {
          event.preventDefault();
          mutate({ apiKey: apiKey.trim() });
        }}
      >
        <h1 className="text-xl font-semibold">Sign in to Relay</h1>
        {hasEnded ? (
          <p role="status" className="rounded bg-waiting-soft p-2 text-sm text-waiting">
            Your sign-in has ended: it expired, or its key was revoked.
          </p>
        ) : null}
        <Field
          label="API key"
          hint="It is exchanged for a cookie that ends after 12 hours, and is not stored."
          error={signIn.error === null ? undefined : errorText(signIn.error)}
        >
          {(ids) => (
            <Input
              {...ids}
              type="password"
              autoComplete="off"
              spellCheck={false}
              placeholder="relay_live_…"
              required
              value={apiKey}
              onChange={(event) => setApiKey(event.target.value)}
            />
          )}
        </Field>
        <Button kind="primary" type="submit" disabled={signIn.isPending}>
          {signIn.isPending ? 'Signing in …' : 'Sign in'}
        </Button>
        <p className="text-xs text-muted">
          No key at hand? On the server, <code className="font-mono">relay console</code> prints a
          one-time link.
        </p>
      </form>
    </main>
  );
}
