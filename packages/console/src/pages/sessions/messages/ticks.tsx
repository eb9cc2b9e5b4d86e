/** Receipts on the page. */
import { useMutation } from '@tanstack/react-query';
import { Check, CheckCheck, CircleX, Clock, RotateCw } from 'lucide-react';
import { useMay } from '../../../api/account.tsx';
import { client } from '../../../api/client.ts';
import { queries } from '../../../api/queries.ts';
import { Button } from '../../../ui/button.tsx';
import { cx } from '../../../ui/cx.ts';
import { errorText } from '../../../ui/notice.tsx';
import { toast } from '../../../ui/toast.tsx';
import { type KnownDelivery, type Receipt, receiptOf } from './receipt.ts';

const looks = {
  one: { icon: Check, colour: 'text-muted' },
  two: { icon: CheckCheck, colour: 'text-muted' },
  read: { icon: CheckCheck, colour: 'text-working' },
  waits: { icon: Clock, colour: 'text-waiting' },
  failed: { icon: CircleX, colour: 'text-failed' },
} as const satisfies Record<Receipt['ticks'], unknown>;

export function Ticks({ receipt }: { readonly receipt: Receipt }) {
  const { ticks, word, title, isInferred } = receipt;
  const { icon: Icon, colour } = looks[ticks];
  return (
    <span
      title={title}
      data-receipt={ticks}
      className={cx('inline-flex items-center gap-1 text-xs whitespace-nowrap', colour)}
    >
      <Icon aria-hidden size={14} {...(isInferred ? { strokeDasharray: '2.5 2' } : {})} />
      {word}
      {isInferred ? <span className="sr-only"> (concluded)</span> : null}
    </span>
  );
}

interface DeliveryReceiptProps {
  readonly delivery: KnownDelivery;
  readonly isTerminal?: boolean;
}

/** The ticks; if it waits or failed, why, and the way to deliver it again. */
export function DeliveryReceipt({ delivery, isTerminal = false }: DeliveryReceiptProps) {
  const mayRun = useMay('runs');
  const receipt = receiptOf(delivery, isTerminal);
  const redeliver = useMutation({
    mutationFn: () => client.deliveries.redeliver(delivery.id),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['deliveries'] });
      await queries.invalidateQueries({ queryKey: ['session-messages'] });
    },
    onError: (error) => toast(`It could not be delivered again: ${errorText(error)}`, 'error'),
  });
  const isExplained = receipt.ticks === 'waits' || receipt.ticks === 'failed';
  return (
    <span className="inline-flex max-w-full flex-wrap items-center gap-x-2">
      <Ticks receipt={receipt} />
      {isExplained && receipt.word !== 'Withdrawn' ? (
        <span className="min-w-0 text-xs break-words text-muted">{receipt.title}</span>
      ) : null}
      {receipt.canRedeliver && mayRun ? (
        <Button size="sm" disabled={redeliver.isPending} onClick={() => redeliver.mutate()}>
          <RotateCw aria-hidden size={12} /> Deliver again
        </Button>
      ) : null}
    </span>
  );
}
