/** Sign-in with an API key, or with the one-time link that the address contains. */
import { escapeMisleading } from '@relay/protocol/display';
import type { CurrentKey } from '@relay/protocol/wire';
import { RelayApiError } from '@relay/sdk';
import { useMutation } from '@tanstack/react-query';
import { CircleAlert } from 'lucide-react';
import { type ReactNode, useEffect, useState } from 'react';
import { client } from '../api/client.ts';
import { Button } from '../ui/button.tsx';
import { Field, Input } from '../ui/form.tsx';
import { errorText } from '../ui/notice.tsx';

interface Props {
  readonly hasEnded: boolean;
  readonly onSignIn: (account: CurrentKey) => void;
  /** The person goes on as who they are. */
  readonly onStay: () => void;
}

export function SignIn({ hasEnded, onSignIn, onStay }: Props) {
  const [apiKey, setApiKey] = useState('');
  const [asked, setAsked] = useState<{ readonly link: string; readonly account: CurrentKey }>();
  const signIn = useMutation({
    mutationFn: (body: { apiKey: string } | { link: string }) => client.console.login(body),
    onSuccess: (account) => {
      setApiKey('');
      onSignIn(account);
    },
  });
  const { mutate, variables, error } = signIn;
  const isLink = variables !== undefined && 'link' in variables;
  const refused = error instanceof RelayApiError && error.status === 401;

  useEffect(() => {
    // The fragment is sent to no server; it leaves the address bar and the history at once.
    const link = location.hash.slice(1);
    if (link === '') return;
    history.replaceState(null, '', location.pathname);
    // Anybody can lead a person to a link of their own: it does not replace a sign-in unasked.
    client.keys.current().then(
      (account) => setAsked({ link, account }),
      () => mutate({ link }),
    );
  }, [mutate]);

  if (asked !== undefined && signIn.isIdle) {
    const name = escapeMisleading(asked.account.owner ?? asked.account.name);
    return (
      <main className="flex min-h-full items-center justify-center p-4">
        <div className="flex w-full max-w-sm flex-col gap-4 rounded border border-line bg-surface p-6">
          <h1 className="text-xl font-semibold">Sign in to Relay</h1>
          <Notice>
            You are signed in as {name}. This link ends that and signs you in with the key that it
            was made for. Use it only if you asked for it.
          </Notice>
          <Button kind="primary" onClick={onStay}>
            Stay signed in as {name}
          </Button>
          <Button onClick={() => mutate({ link: asked.link })}>Sign in with the link</Button>
        </div>
      </main>
    );
  }

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
        {isLink && error !== null ? (
          <Notice>{errorText(error)}</Notice>
        ) : hasEnded && error === null ? (
          <Notice>
            Your sign-in has ended: it expired, or it was revoked, or its key was. Sign in again to
            continue where you were.
          </Notice>
        ) : null}
        <Field
          label="API key"
          hint="It is exchanged for a cookie that ends after 12 hours, and is not stored."
          error={
            error === null || isLink
              ? undefined
              : refused
                ? 'This key is not valid. It may be incomplete, revoked or expired.'
                : errorText(error)
          }
        >
          {(ids) => (
            <Input
              {...ids}
              // The only field of the page.
              autoFocus
              aria-invalid={error !== null && !isLink}
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
          On the server’s machine, <code className="font-mono">relay console</code> prints a link
          that signs in once, without a key. Elsewhere it needs one:{' '}
          <code className="font-mono">relay login</code>.
        </p>
      </form>
    </main>
  );
}

function Notice({ children }: { readonly children: ReactNode }) {
  return (
    <p
      role="alert"
      className="flex gap-2 rounded bg-waiting-soft p-2 text-sm break-words text-waiting"
    >
      <CircleAlert aria-hidden size={16} className="mt-0.5 shrink-0" />
      {children}
    </p>
  );
}
