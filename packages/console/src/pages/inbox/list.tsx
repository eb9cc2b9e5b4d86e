/** The rows of the inbox. Only those in view are rendered. */
import { describeFlags, escapeMisleading } from '@relay/protocol/display';
import type { Approval } from '@relay/protocol/wire';
import { CircleHelp, Clock, Flag, LoaderCircle, RotateCcw, Users, Wrench } from 'lucide-react';
import {
  memo,
  type ReactNode,
  type Ref,
  useImperativeHandle,
  useRef,
  useState,
  useSyncExternalStore,
} from 'react';
import { VList, type VListHandle } from 'virtua';
import { Link } from 'wouter';
import { useAccount } from '../../api/account.tsx';
import type { ApprovalStore } from '../../api/approval-store.ts';
import { approvals } from '../../api/approvals.ts';
import { Marked } from '../../text/safe-text.tsx';
import { Button } from '../../ui/button.tsx';
import { cx } from '../../ui/cx.ts';
import { lookOf, toneText } from '../../ui/state.tsx';
import { formatAge, useNow } from '../../ui/values.tsx';
import { type Arrangement, arrange } from './arrange.ts';
import { useDecision } from './decisions.ts';
import { nameOf, pathText, requestText, urgencyOf, verdictOf } from './words.ts';

export interface ListHandle {
  /** The id of the row that is this many rows further, or of the first one. */
  readonly neighbour: (id: string | undefined, offset: number) => string | undefined;
  readonly scrollTo: (id: string) => void;
}

interface ListProps {
  readonly ref: Ref<ListHandle>;
  readonly store: ApprovalStore;
  readonly pending: readonly Approval[];
  readonly open: string | undefined;
  readonly hrefOf: (id: string) => string;
  readonly chosen: ReadonlySet<string>;
  readonly onChoose: ((approval: Approval) => void) | undefined;
  /** In place of rows, if there are none. */
  readonly empty: ReactNode;
}

const rowHeight = 56;

export function List(props: ListProps) {
  const { ref, store, pending, open, hrefOf, chosen, onChoose, empty } = props;
  const list = useRef<VListHandle>(null);
  const shown = useRef<Arrangement>({ ids: [], held: 0 });
  const [isPointedAt, setPointedAt] = useState(false);
  const [isScrolled, setScrolled] = useState(false);
  const [, rearrange] = useState(0);

  const lastInView = (): number => {
    const handle = list.current;
    if (handle === null || (!isPointedAt && !isScrolled)) return -1;
    return handle.findItemIndex(handle.scrollOffset + handle.viewportSize);
  };
  const wanted = pending.map(({ id }) => id);
  shown.current = arrange(shown.current.ids, { wanted, lastFixed: lastInView(), open });
  const { ids, held } = shown.current;

  useImperativeHandle(
    ref,
    () => ({
      neighbour: (id, offset) => {
        const all = shown.current.ids;
        const at = id === undefined ? -1 : all.indexOf(id);
        if (at === -1) return all[0];
        return all[Math.max(0, Math.min(all.length - 1, at + offset))];
      },
      scrollTo: (id) => {
        const index = shown.current.ids.indexOf(id);
        if (index !== -1) list.current?.scrollToIndex(index, { align: 'nearest' });
      },
    }),
    [],
  );

  if (ids.length === 0) return empty;
  return (
    <div
      className="relative min-h-0 flex-1"
      onPointerEnter={({ pointerType }) => setPointedAt(pointerType === 'mouse')}
      onPointerLeave={() => setPointedAt(false)}
    >
      {held === 0 ? null : (
        <div className="absolute inset-x-0 top-2 z-10 flex justify-center">
          <Button
            kind="primary"
            size="sm"
            onClick={() => {
              shown.current = { ids: wanted, held: 0 };
              list.current?.scrollTo(0);
              rearrange((count) => count + 1);
            }}
          >
            {held} new {held === 1 ? 'request' : 'requests'}
          </Button>
        </div>
      )}
      <VList
        ref={list}
        data={ids}
        itemSize={rowHeight}
        className="h-full"
        onScroll={(offset) => setScrolled(offset > 0)}
      >
        {(id) => (
          <Row
            key={id}
            id={id}
            store={store}
            href={hrefOf(id)}
            isOpen={id === open}
            isChosen={chosen.has(id)}
            isChoosing={chosen.size > 0}
            onChoose={onChoose}
          />
        )}
      </VList>
    </div>
  );
}

interface RowProps {
  readonly id: string;
  readonly store: ApprovalStore;
  readonly href: string;
  readonly isOpen: boolean;
  readonly isChosen: boolean;
  readonly isChoosing: boolean;
  readonly onChoose: ((approval: Approval) => void) | undefined;
}

const kindIcons = { permission: Wrench, question: CircleHelp, outcome: RotateCcw };

const Row = memo(function Row(props: RowProps) {
  const { id, store, href, isOpen, isChosen, isChoosing, onChoose } = props;
  const approval = useSyncExternalStore(
    store.subscribe,
    // A list of its own forgets what is no longer in it.
    () => store.get(id) ?? approvals.get(id),
  );
  if (approval === undefined) return <div className="h-14" />;
  const isPending = approval.status === 'pending';
  const Icon = kindIcons[approval.kind];
  return (
    <div
      className={cx(
        'group relative flex h-14 items-stretch border-b border-line',
        isOpen ? 'bg-selected' : 'hover:bg-hover',
      )}
    >
      {onChoose === undefined || !isPending || approval.kind !== 'permission' ? (
        <span className="flex w-9 shrink-0 items-center justify-center text-muted">
          <Icon aria-hidden size={16} />
        </span>
      ) : (
        <label className="relative flex w-9 shrink-0 cursor-pointer items-center justify-center pointer-coarse:w-11">
          <input
            type="checkbox"
            aria-label={`Choose ${escapeMisleading(approval.tool)}`}
            checked={isChosen}
            onChange={() => onChoose(approval)}
            className={cx(
              'peer size-4 accent-solid focus-visible:opacity-100',
              !isChoosing && 'opacity-0 group-hover:opacity-100 pointer-coarse:opacity-100',
            )}
          />
          {isChoosing ? null : (
            <Icon
              aria-hidden
              size={16}
              className="pointer-events-none absolute text-muted group-hover:opacity-0 peer-focus-visible:opacity-0 pointer-coarse:opacity-0"
            />
          )}
        </label>
      )}
      <Link
        href={href}
        aria-current={isOpen ? 'true' : undefined}
        data-approval={id}
        className={cx(
          'flex min-w-0 flex-1 flex-col justify-center gap-0.5 py-1 pr-3 -outline-offset-2',
          !isPending && 'opacity-70',
        )}
      >
        <span className="flex items-baseline gap-2">
          <span className="max-w-[45%] shrink-0 truncate text-sm font-semibold">
            <Marked text={approval.tool} />
          </span>
          <span className="min-w-0 flex-1 truncate font-mono text-xs text-muted">
            <Marked text={requestText(approval)} />
          </span>
        </span>
        <span className="flex items-center gap-2 text-xs text-muted">
          <span className="min-w-0 truncate">
            <Marked text={pathText(approval.agentPath)} />
          </span>
          <Marks approval={approval} />
          <span className="ml-auto shrink-0">
            <RowState approval={approval} />
          </span>
        </span>
      </Link>
    </div>
  );
});

function Marks({ approval }: { readonly approval: Approval }) {
  const { display, quorum = 1, votes = [], kind, earlierDenial } = approval;
  return (
    <>
      {kind === 'outcome' ? (
        <span className="inline-flex shrink-0 items-center gap-1 text-failed">
          <RotateCcw aria-hidden size={12} /> unknown outcome
        </span>
      ) : null}
      {display.flags.length === 0 ? null : (
        <span
          className="inline-flex shrink-0 items-center gap-1 text-failed"
          title={`The request ${describeFlags(display.flags).join(', ')}`}
        >
          <Flag aria-hidden size={12} /> {display.flags.length === 1 ? display.flags[0] : 'flagged'}
        </span>
      )}
      {earlierDenial === undefined ? null : (
        <span className="shrink-0 text-failed">denied before</span>
      )}
      {quorum < 2 ? null : (
        <span className="inline-flex shrink-0 items-center gap-1" title="Votes">
          <Users aria-hidden size={12} /> {votes.length} / {quorum}
        </span>
      )}
    </>
  );
}

/** What is being done with it, what became of it, or how long it waits and how much time is left. */
function RowState({ approval }: { readonly approval: Approval }) {
  const decision = useDecision(approval.id);
  const now = useNow();
  if (decision?.status === 'sending') {
    return (
      <span className="inline-flex items-center gap-1 text-working">
        <LoaderCircle aria-hidden size={12} className="animate-spin" /> {decision.label} …
      </span>
    );
  }
  if (approval.status !== 'pending') return <Ended approval={approval} />;
  return (
    <span className="inline-flex items-center gap-2">
      <span title="Waiting">{formatAge(Math.max(0, now - Date.parse(approval.requestedAt)))}</span>
      <TimeLeft approval={approval} now={now} />
    </span>
  );
}

function Ended({ approval }: { readonly approval: Approval }) {
  const { data: account } = useAccount();
  const { status, decidedBy } = approval;
  const { icon: Icon, tone } = lookOf(status);
  const who = decidedBy === undefined ? '' : ` by ${nameOf(decidedBy, account)}`;
  return (
    <span className={cx('inline-flex items-center gap-1', toneText[tone])}>
      <Icon aria-hidden size={12} /> {verdictOf(approval)}
      <Marked text={who} />
    </span>
  );
}

const urgencyText = { calm: 'text-muted', soon: 'text-waiting', last: 'text-failed' };

function TimeLeft({ approval, now }: { readonly approval: Approval; readonly now: number }) {
  const left = Math.max(0, Date.parse(approval.expiresAt) - now);
  return (
    <span
      title="Time left until it expires"
      className={cx('inline-flex items-center gap-1', urgencyText[urgencyOf(approval, now)])}
    >
      <Clock aria-hidden size={12} /> {formatAge(left)} left
    </span>
  );
}
