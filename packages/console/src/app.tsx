/** The addresses of the console. Each page is loaded when it is first opened. */
import { RelayApiError } from '@relay/sdk';
import { Suspense, useEffect, useState } from 'react';
import { Redirect, Route, Switch, useLocation } from 'wouter';
import { announceSignIn, reloadAfterSignIn, useAccount } from './api/account.tsx';
import { startFeed } from './api/feed.ts';
import { queries, whenSignedOut } from './api/queries.ts';
import { Frame } from './frame/frame.tsx';
import { PageError } from './frame/page-error.tsx';
import { SignIn } from './frame/sign-in.tsx';
import { lazyPart } from './ui/lazy-part.ts';
import { Empty, ErrorNotice, Loading } from './ui/notice.tsx';

const Inbox = lazyPart(async () => (await import('./pages/inbox/inbox.tsx')).Inbox);
const Runs = lazyPart(async () => (await import('./pages/runs/runs.tsx')).Runs);
const Sessions = lazyPart(async () => (await import('./pages/sessions/sessions.tsx')).Sessions);
const Chat = lazyPart(async () => (await import('./pages/chat/chat.tsx')).Chat);
const Overview = lazyPart(async () => (await import('./pages/overview/overview.tsx')).Overview);
const Policy = lazyPart(async () => (await import('./pages/policy/policy.tsx')).Policy);
const Audit = lazyPart(async () => (await import('./pages/audit/audit.tsx')).Audit);
const Settings = lazyPart(async () => (await import('./pages/settings/settings.tsx')).Settings);

export function App() {
  const [location, navigate] = useLocation();
  /** `ended`: was signed in before. */
  const [signedOut, setSignedOut] = useState<false | 'never' | 'ended'>(false);

  useEffect(() => {
    whenSignedOut(() => {
      setSignedOut(queries.getQueryData(['account']) === undefined ? 'never' : 'ended');
      // Nothing of the account stays in memory.
      queries.clear();
    });
    return reloadAfterSignIn();
  }, []);

  if (signedOut === false && !location.startsWith('/login')) return <SignedIn />;
  return (
    <SignIn
      hasEnded={signedOut === 'ended'}
      onSignIn={(account) => {
        announceSignIn(account);
        // A new page has nothing in memory of the person who was signed in before.
        if (location.startsWith('/login')) window.location.replace('/console/inbox');
        else window.location.reload();
      }}
      onStay={() => navigate('/inbox', { replace: true })}
    />
  );
}

function SignedIn() {
  const account = useAccount();
  const [location] = useLocation();
  const isSignedIn = account.data !== undefined;

  useEffect(() => {
    if (!isSignedIn) return undefined;
    const stop = new AbortController();
    startFeed(stop.signal);
    return () => stop.abort();
  }, [isSignedIn]);

  if (account.data === undefined) {
    if (account.error === null || isUnauthorized(account.error)) return <Loading />;
    return (
      <main className="mx-auto max-w-xl pt-[10vh]">
        <h1 className="px-4 text-xl font-semibold">Relay</h1>
        <ErrorNotice
          title="The console cannot reach the server. It tries again every few seconds."
          error={account.error}
          onRetry={() => void account.refetch()}
        />
      </main>
    );
  }
  return (
    <Frame>
      <PageError key={location.split('/')[1]}>
        <Suspense fallback={<Loading />}>
          <Switch>
            <Route path="/">
              <Redirect to="/inbox" replace />
            </Route>
            <Route path="/inbox/:id?">{({ id }) => <Inbox id={id} />}</Route>
            <Route path="/runs/:id?">{({ id }) => <Runs id={id} />}</Route>
            <Route path="/sessions/:id?">{({ id }) => <Sessions id={id} />}</Route>
            <Route path="/chat/:conversationId?">
              {({ conversationId }) => <Chat conversationId={conversationId} />}
            </Route>
            <Route path="/overview">
              <Overview />
            </Route>
            <Route path="/policy/:section?">{({ section }) => <Policy section={section} />}</Route>
            <Route path="/audit">
              <Audit />
            </Route>
            <Route path="/settings/:section?">
              {({ section }) => <Settings section={section} />}
            </Route>
            <Route>
              <Empty title="There is no page at this address">
                Choose one in the navigation, or press Ctrl K.
              </Empty>
            </Route>
          </Switch>
        </Suspense>
      </PageError>
    </Frame>
  );
}

function isUnauthorized(error: unknown): boolean {
  return error instanceof RelayApiError && error.status === 401;
}
