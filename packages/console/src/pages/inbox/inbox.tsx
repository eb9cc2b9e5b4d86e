/** The inbox: everything that waits for a person, and the card of the one that is open. */
import type { Approval } from '@relay/protocol/wire';
import { useMutation } from '@tanstack/react-query';
import { Bell, BellOff, CircleHelp } from 'lucide-react';
import { Suspense, useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { useLocation, useSearchParams } from 'wouter';
import { useMay } from '../../api/account.tsx';
import { approvals, useApprovalStore, usePendingApprovals } from '../../api/approvals.ts';
import { client } from '../../api/client.ts';
import { Checklist } from '../../frame/checklist/checklist.tsx';
import { useShortcuts } from '../../frame/shortcuts.ts';
import { setPreferences, usePreferences } from '../../preferences.ts';
import { Button, IconButton } from '../../ui/button.tsx';
import { cx } from '../../ui/cx.ts';
import { Kbd, PageHeader, Split, Tabs } from '../../ui/layout.tsx';
import { lazyPart } from '../../ui/lazy-part.ts';
import { Empty, ErrorNotice, errorText, Loading } from '../../ui/notice.tsx';
import { toast } from '../../ui/toast.tsx';
import { BulkBar } from './bulk.tsx';
import { Card } from './card.tsx';
import { Decided } from './decided.tsx';
import { FilterBar, filterOf } from './filters.tsx';
import { List, type ListHandle } from './list.tsx';
import { callKey } from './words.ts';

const Help = lazyPart(async () => (await import('./help.tsx')).Help);

export function Inbox({ id }: { readonly id: string | undefined }) {
  const [, navigate] = useLocation();
  const [search, setSearch] = useSearchParams();
  const filter = useMemo(() => filterOf(search), [search]);
  const isDecidedTab = search.get('tab') === 'decided';
  const store = useApprovalStore(filter.isMine);
  const state = usePendingApprovals(store);
  const mayApprove = useMay('approve');
  const list = useRef<ListHandle>(null);
  const [isHelpOpen, setHelpOpen] = useState(false);
  const [chosen, setChosen] = useState<readonly Approval[]>([]);
  /** The calls whose cards were open. */
  const [seen, setSeen] = useState<ReadonlySet<string>>(new Set());
  const addSeen = useCallback(
    (call: string) => setSeen((before) => (before.has(call) ? before : new Set([...before, call]))),
    [],
  );

  const query = search.toString();
  const hrefOf = (each: string) => `/inbox/${each}${query === '' ? '' : `?${query}`}`;
  const back = `/inbox${query === '' ? '' : `?${query}`}`;
  const pending = useMemo(
    () => state.pending.filter((approval) => filter.includes(approval)),
    [state.pending, filter],
  );

  const move = (offset: number) => {
    const next = list.current?.neighbour(id, offset);
    if (next === undefined) return;
    navigate(hrefOf(next), { replace: id !== undefined });
    list.current?.scrollTo(next);
  };
  const openNext = () => {
    if (isDecidedTab) navigate('/inbox');
    // After the last one, the one before it.
    else move(list.current?.neighbour(id, 1) === id ? -1 : 1);
  };
  const choose = (approval: Approval) => {
    if (chosen.some((each) => each.id === approval.id)) {
      setChosen(chosen.filter((each) => each.id !== approval.id));
      return;
    }
    const [first] = chosen;
    if (first !== undefined && callKey(first) !== callKey(approval)) {
      toast('Only identical calls can be decided together.');
      return;
    }
    setChosen([...chosen, approval]);
  };
  useShortcuts({
    j: () => move(1),
    k: () => move(-1),
    Enter: () => {
      if (id === undefined) move(1);
      else document.querySelector<HTMLElement>('#approval')?.focus();
    },
    x: () => {
      const approval = id === undefined ? undefined : approvals.get(id);
      if (!mayApprove || approval?.status !== 'pending' || approval.kind !== 'permission') return;
      choose(approval);
    },
    '?': () => setHelpOpen(true),
  });
  // A list that was hidden, as on a phone, has lost its place.
  const lastOpen = useRef(id);
  useEffect(() => {
    if (id === undefined && lastOpen.current !== undefined)
      list.current?.scrollTo(lastOpen.current);
    lastOpen.current = id;
  }, [id]);
  // The card needs it as soon as a request is opened, and says so if it cannot be loaded.
  useEffect(() => void import('../../call/call-view.tsx').catch(() => undefined), []);
  // What was decided elsewhere is no longer chosen.
  useEffect(() => {
    setChosen((before) => {
      const still = before.filter((each) => store.get(each.id)?.status === 'pending');
      return still.length === before.length ? before : still;
    });
  }, [store, state.pending]);

  const hrefOfTab = (tab: 'decided' | undefined) => {
    const next = new URLSearchParams(search);
    if (tab === undefined) next.delete('tab');
    else next.set('tab', tab);
    const text = next.toString();
    return `/inbox${text === '' ? '' : `?${text}`}`;
  };
  const isUnknown = pending.length === 0 && !state.isComplete;
  const pendingLabel = isUnknown
    ? 'Pending'
    : `Pending ${pending.length}${state.isComplete ? '' : '+'}`;
  const ids = useMemo(() => new Set(chosen.map((each) => each.id)), [chosen]);

  return (
    <>
      <div className={cx(id !== undefined && 'max-[899px]:hidden')}>
        <PageHeader title="Inbox">
          {/* On a phone the filters scroll beside the buttons. */}
          <div className="flex min-w-0 items-center gap-2">
            <FilterBar
              search={search}
              setSearch={setSearch}
              approvals={state.pending}
              isPending={!isDecidedTab}
            />
            <NotificationsButton />
            <IconButton
              label="Shortcuts"
              className="pointer-coarse:hidden"
              onClick={() => setHelpOpen(true)}
            >
              <CircleHelp aria-hidden size={16} />
            </IconButton>
          </div>
        </PageHeader>
        <Tabs
          label="Approvals"
          tabs={[
            { href: hrefOfTab(undefined), label: pendingLabel, isHere: !isDecidedTab },
            { href: hrefOfTab('decided'), label: 'Decided', isHere: isDecidedTab },
          ]}
        />
      </div>
      <Split
        back={back}
        list={
          isDecidedTab ? (
            <Decided open={id} hrefOf={hrefOf} filter={filter} />
          ) : state.error !== undefined && pending.length === 0 ? (
            <ErrorNotice
              title="The approvals could not be loaded"
              error={state.error}
              onRetry={() => void store.reload()}
            />
          ) : state.isLoading && pending.length === 0 && !state.isComplete ? (
            <Loading />
          ) : (
            <>
              <List
                key={query}
                ref={list}
                store={store}
                pending={pending}
                open={id}
                hrefOf={hrefOf}
                chosen={ids}
                onChoose={mayApprove ? choose : undefined}
                empty={
                  <NothingPending isFiltered={filter.isActive} onClear={() => navigate('/inbox')} />
                }
              />
              <BulkBar
                chosen={chosen}
                isSeen={chosen.every((each) => seen.has(callKey(each)))}
                onClear={() => setChosen([])}
              />
            </>
          )
        }
        detail={
          id === undefined ? undefined : (
            <Card
              id={id}
              onSeen={addSeen}
              onNext={pending.some((each) => each.id !== id) ? openNext : undefined}
              identical={
                <Identical
                  id={id}
                  pending={pending}
                  onChoose={mayApprove ? setChosen : undefined}
                />
              }
            />
          )
        }
        placeholder={
          isDecidedTab ? (
            <Empty title="Decided requests">Choose one to see who decided it, and why.</Empty>
          ) : pending.length === 0 ? (
            <div className="overflow-y-auto p-4">
              <Checklist />
            </div>
          ) : (
            <Empty
              title={pending.length === 1 ? 'One request waits' : `${pending.length} requests wait`}
            >
              Choose one, or press <Kbd>J</Kbd> to open the first. <Kbd>?</Kbd> shows all shortcuts.
            </Empty>
          )
        }
      />
      <Suspense>{isHelpOpen ? <Help onClose={() => setHelpOpen(false)} /> : null}</Suspense>
    </>
  );
}

interface IdenticalProps {
  readonly id: string;
  readonly pending: readonly Approval[];
  readonly onChoose: ((chosen: readonly Approval[]) => void) | undefined;
}

/** Offers to decide the same call of several runs together. */
function Identical({ id, pending, onChoose }: IdenticalProps) {
  const approval = approvals.get(id);
  if (approval?.status !== 'pending' || approval.kind !== 'permission') return null;
  const key = callKey(approval);
  const same = pending.filter((each) => callKey(each) === key);
  if (same.length < 2 || onChoose === undefined) return null;
  return (
    <p className="flex flex-wrap items-center gap-2 text-sm text-muted">
      {same.length - 1} more {same.length === 2 ? 'request waits' : 'requests wait'} for the
      identical call.
      <Button size="sm" onClick={() => onChoose(same)}>
        Choose all {same.length}
      </Button>
    </p>
  );
}

interface NothingPendingProps {
  readonly isFiltered: boolean;
  readonly onClear: () => void;
}

function NothingPending({ isFiltered, onClear }: NothingPendingProps) {
  const mayStart = useMay('runs');
  const start = useMutation({
    mutationFn: () => client.runs.sendMessage({ message: 'notify hello', model: 'demo' }),
    onError: (error) => toast(errorText(error), 'error'),
  });
  if (isFiltered) {
    return (
      <Empty
        title="Nothing matches these filters"
        action={<Button onClick={onClear}>Clear the filters</Button>}
      >
        Other requests may be waiting.
      </Empty>
    );
  }
  return (
    <>
      <Empty
        title="Nothing waits for you"
        action={
          mayStart ? (
            <Button
              kind="primary"
              disabled={start.isPending || start.isSuccess}
              onClick={() => start.mutate()}
            >
              {start.isIdle || start.isError
                ? 'Start a demo run that asks'
                : 'Started: it asks in a moment …'}
            </Button>
          ) : undefined
        }
      >
        When an agent wants to use a tool that no rule allows, its request appears here, live: what
        exactly would run, who asks and why. Nothing runs before a person approves it.
      </Empty>
      {/* Where there is room for both, it is beside the list. */}
      <div className="px-4 pb-4 min-[900px]:hidden">
        <Checklist />
      </div>
    </>
  );
}

/** Turns desktop notifications on and off. */
function NotificationsButton() {
  const { notifications } = usePreferences();
  if (!('Notification' in globalThis)) return null;
  const isOn = notifications && Notification.permission === 'granted';
  const Icon = isOn ? Bell : BellOff;
  return (
    <IconButton
      label={isOn ? 'Turn desktop notifications off' : 'Notify me of new requests'}
      aria-pressed={isOn}
      onClick={() => void toggle(isOn)}
    >
      <Icon aria-hidden size={16} />
    </IconButton>
  );
}

async function toggle(isOn: boolean): Promise<void> {
  if (isOn) return setPreferences({ notifications: false });
  const permission = await Notification.requestPermission();
  setPreferences({ notifications: permission === 'granted' });
  if (permission === 'denied') {
    toast('This browser blocks notifications of this page. Allow them in its settings.', 'error');
  }
}
