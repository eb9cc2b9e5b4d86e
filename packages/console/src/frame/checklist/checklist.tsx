/** Leads a newcomer through the first approval. Each step is done by doing it. */
import { useMutation, useQuery } from '@tanstack/react-query';
import { CircleCheck, CircleDashed, X } from 'lucide-react';
import { type ReactNode, useEffect, useId } from 'react';
import { Link } from 'wouter';
import { useMay } from '../../api/account.tsx';
import { client } from '../../api/client.ts';
import { useLastOutage } from '../../api/feed.ts';
import { markChecklist, usePreferences } from '../../preferences.ts';
import { Button, buttonClass, IconButton } from '../../ui/button.tsx';
import { cx } from '../../ui/cx.ts';
import { errorText } from '../../ui/notice.tsx';
import { toast } from '../../ui/toast.tsx';
import { CopyButton, formatDuration } from '../../ui/values.tsx';
import { type Findings, hasContinued, isStillOpen, type Step, steps, stepsDone } from './steps.ts';

/** Nothing once it is dismissed. */
export function Checklist() {
  const { checklist } = usePreferences();
  return checklist.includes('dismissed') ? null : <Steps />;
}

function useFindings(): Findings {
  const { checklist: marks } = usePreferences();
  const mayReadCredentials = useMay('admin');
  const outage = useLastOutage();
  const { data: runs } = useQuery({
    queryKey: ['runs', 'checklist'],
    queryFn: ({ signal }) => client.runs.list({ limit: 50 }, { signal }).page(),
  });
  const { data: approved } = useQuery({
    queryKey: ['approvals', 'checklist'],
    queryFn: ({ signal }) =>
      client.approvals.list({ status: 'approved', limit: 20 }, { signal }).page(),
  });
  // The feed does not say when these change: they are read again whenever the checklist is shown.
  const { data: grants } = useQuery({
    queryKey: ['grants', 'checklist'],
    queryFn: ({ signal }) => client.grants.list({ status: 'all', limit: 1 }, { signal }).page(),
    refetchOnMount: 'always',
  });
  const { data: policy } = useQuery({
    queryKey: ['policy', 'checklist'],
    queryFn: ({ signal }) => client.policy.get({}, { signal }),
    refetchOnMount: 'always',
  });
  const { data: models } = useQuery({
    queryKey: ['models', 'checklist'],
    queryFn: ({ signal }) => client.models({ signal }),
    refetchOnMount: 'always',
  });
  const { data: credentials } = useQuery({
    queryKey: ['credentials', 'checklist'],
    queryFn: ({ signal }) => client.credentials.list({ signal }).page(),
    enabled: mayReadCredentials,
    refetchOnMount: 'always',
  });
  return {
    runs: runs?.items,
    approved: approved?.items,
    grants: grants?.items,
    policy,
    models: models?.models,
    credentials: credentials?.items.length,
    outage,
    marks,
  };
}

function Steps() {
  const heading = useId();
  const findings = useFindings();
  const { runs = [], outage } = findings;
  const done = stepsDone(findings);
  const next = steps.find((step) => !done.has(step));
  const continued = hasContinued(runs, outage);
  useEffect(() => {
    if (continued) markChecklist('restart');
  }, [continued]);

  // Until something is known, nothing is shown that would change at once.
  if (findings.runs === undefined || findings.approved === undefined) return null;
  return (
    <section aria-labelledby={heading} className="rounded border border-line bg-surface">
      <header className="flex min-h-10 items-center gap-2 border-b border-line py-1 pr-1 pl-4">
        <h2 id={heading} className="text-sm font-semibold">
          {next === undefined ? 'You have seen how Relay works' : 'First steps'}
        </h2>
        <span className="text-sm text-muted">
          {done.size} of {steps.length} done
        </span>
        <IconButton
          label="Hide the checklist"
          className="ml-auto"
          onClick={() => markChecklist('dismissed')}
        >
          <X aria-hidden size={16} />
        </IconButton>
      </header>
      <ol className="p-2">
        {steps.map((step) => (
          <Item key={step} step={step} isDone={done.has(step)} isNext={step === next}>
            <Content step={step} isNext={step === next} findings={findings} />
          </Item>
        ))}
      </ol>
    </section>
  );
}

const titles: Readonly<Record<Step, string>> = {
  start: 'Start a run with the demo model',
  approve: 'Approve what it asks for',
  timeline: 'See its timeline',
  restart: 'Kill the server, and watch a run continue',
  provider: 'Connect a model provider',
  rule: 'Make a rule',
};

interface ItemProps {
  readonly step: Step;
  readonly isDone: boolean;
  readonly isNext: boolean;
  readonly children: ReactNode;
}

/** What is done keeps its line; the next one is open. */
function Item({ step, isDone, isNext, children }: ItemProps) {
  const Icon = isDone ? CircleCheck : CircleDashed;
  return (
    <li
      aria-current={isNext ? 'step' : undefined}
      className={cx(
        'grid grid-cols-[auto_minmax(0,1fr)] gap-x-2 rounded px-2 py-1.5',
        isNext ? 'bg-sunken' : 'items-center',
      )}
    >
      <Icon
        aria-hidden
        size={16}
        className={cx('shrink-0', isNext && 'mt-0.5', isDone ? 'text-done' : 'text-faint')}
      />
      <div className="grid min-w-0 grid-cols-[minmax(0,1fr)_auto] items-center gap-x-4">
        <h3 className={cx('text-sm', isDone ? 'text-muted' : 'font-medium')}>
          {titles[step]}
          <span className="sr-only">{isDone ? ' (done)' : ' (not done yet)'}</span>
        </h3>
        {isDone ? null : children}
      </div>
    </li>
  );
}

interface ContentProps {
  readonly step: Step;
  readonly isNext: boolean;
  readonly findings: Findings;
}

function Content({ step, isNext, findings }: ContentProps) {
  const { runs = [], outage } = findings;
  const mayStart = useMay('runs');
  const mayApprove = useMay('approve');
  const isAdmin = useMay('admin');
  const kind = isNext ? 'primary' : 'plain';
  const to = (href: string, label: string) => (
    <Link href={href} className={buttonClass(kind, 'sm')}>
      {label}
    </Link>
  );
  switch (step) {
    case 'start':
      return (
        <Body
          about="It needs no key. It asks to send a note, and waits until a person says yes."
          isNext={isNext}
          reason={mayStart ? undefined : 'You may not start runs with this sign-in.'}
        >
          <StartButton kind={kind} label="Start a run" />
        </Body>
      );
    case 'approve':
      return (
        <Body
          about="The inbox shows exactly what would be done. Nothing happens before your decision."
          isNext={isNext}
          reason={mayApprove ? undefined : 'You may not decide with this sign-in.'}
        >
          {to('/inbox', 'Open the inbox')}
        </Body>
      );
    case 'timeline': {
      const [newest] = runs;
      return (
        <Body
          about="Every step of a run is stored: you can go back to each, and see what the model saw."
          isNext={isNext}
        >
          {to(newest === undefined ? '/runs' : `/runs/${newest.id}`, 'Open the run')}
        </Body>
      );
    }
    case 'restart': {
      const waits = runs.some(({ status }) => status === 'waiting');
      const isBack = isStillOpen(runs, outage);
      return (
        <Body
          isNext={isNext}
          about={
            isBack && outage !== undefined ? (
              `The connection was gone for ${formatDuration(outage.to - outage.from)}, and the run still waits. Approve it: it continues where it was.`
            ) : (
              <>
                Keep this page open. While a run waits for you, kill the server on its machine:{' '}
                <Command text={killCommand()} /> Then start it again, and approve.
              </>
            )
          }
        >
          {waits || !mayStart ? (
            to('/inbox', 'Open the inbox')
          ) : (
            <StartButton kind={kind} label="Start a run that waits" />
          )}
        </Body>
      );
    }
    case 'provider':
      return (
        <Body
          about="With a key of a model provider, agents can do real work. The key is encrypted and never shown again."
          isNext={isNext}
          reason={isAdmin ? undefined : 'Only an administrator can add a key.'}
        >
          {to('/settings/credentials', 'Add a key')}
        </Body>
      );
    case 'rule':
      return (
        <Body
          about="Rules decide what agents may do without asking, and what they may never do."
          isNext={isNext}
        >
          {to('/policy', 'Open the policy')}
        </Body>
      );
  }
}

interface BodyProps {
  readonly about: ReactNode;
  readonly isNext: boolean;
  /** Why it cannot be done. */
  readonly reason?: string | undefined;
  readonly children: ReactNode;
}

function Body({ about, isNext, reason, children }: BodyProps) {
  return (
    <>
      {isNext ? (
        <div className="col-start-1 row-start-2 text-sm text-muted max-sm:col-span-2">{about}</div>
      ) : null}
      <div
        className={cx(
          'col-start-2 row-start-1 self-center',
          isNext &&
            'row-span-2 max-sm:col-start-1 max-sm:row-span-1 max-sm:row-start-3 max-sm:mt-1',
        )}
      >
        {reason === undefined ? children : <span className="text-xs text-muted">{reason}</span>}
      </div>
    </>
  );
}

function StartButton({
  kind,
  label,
}: {
  readonly kind: 'primary' | 'plain';
  readonly label: string;
}) {
  const start = useMutation({
    mutationFn: () =>
      client.runs.sendMessage({ message: 'notify Hello from the checklist', model: 'demo' }),
    onSuccess: () => toast('The run has started. Its request is in the inbox.'),
    onError: (error) => toast(errorText(error), 'error'),
  });
  return (
    <Button kind={kind} size="sm" disabled={start.isPending} onClick={() => start.mutate()}>
      {start.isPending ? 'Starting …' : label}
    </Button>
  );
}

/** The server does not say its process id; its port is in the address, unless a proxy is in between. */
function killCommand(): string {
  const port =
    location.port === '' ? (location.protocol === 'https:' ? '443' : '80') : location.port;
  return `kill -9 $(lsof -ti tcp:${port} -sTCP:LISTEN)`;
}

function Command({ text }: { readonly text: string }) {
  return (
    <span className="inline-flex max-w-full items-center rounded-sm bg-surface pl-1.5 align-middle">
      <code className="font-mono text-xs break-words text-text">{text}</code>
      <CopyButton text={text} label="command" />
    </span>
  );
}
