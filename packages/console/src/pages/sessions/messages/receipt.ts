/** What is known of a delivery, as ticks: stored ✓, delivered ✓✓, read by the model ✓✓ coloured. */
import type { Delivery, DeliveryStatus } from '@relay/sdk';

/** The deliveries of a message have less than those of `/v1/deliveries`. */
export type KnownDelivery = Pick<Delivery, 'id' | 'status' | 'error'> & Partial<Delivery>;

export interface Receipt {
  readonly ticks: 'one' | 'two' | 'read' | 'waits' | 'failed';
  /** One or two words: the name of the ticks for screen readers. */
  readonly word: string;
  /** What is true, and why. */
  readonly title: string;
  /** The harness has concluded it: the ticks are dashed. */
  readonly isInferred: boolean;
  /** It can be delivered again on request. */
  readonly canRedeliver: boolean;
}

/** `isTerminal`: of a recipient that never reports whether it has read a message. */
export function receiptOf(delivery: KnownDelivery, isTerminal = false): Receipt {
  const { status, error, reason, mode, attempts = 1, fidelity } = delivery;
  const isInferred = fidelity === 'inferred';
  const notes = [
    ...(isInferred && !isTerminal ? ['Concluded from what the agent does'] : []),
    ...(attempts > 1 ? [`Handed over ${attempts} times`] : []),
  ];
  const title = (said: string) => [said, ...notes].join('. ');
  const common = { isInferred, canRedeliver: false };
  switch (status) {
    case 'accepted':
      return {
        ...common,
        ticks: 'one',
        word: 'Stored',
        title: title(
          mode === 'manual'
            ? 'Stored. Waits in the queue until a person delivers it'
            : 'Stored, not delivered yet',
        ),
      };
    case 'deferred':
      return {
        ...common,
        ticks: 'waits',
        word: 'Waits',
        title: title(reason === undefined ? 'Waits' : `Waits: ${reason}`),
      };
    case 'delivered':
      return {
        ...common,
        ticks: 'two',
        word: 'Delivered',
        title: title(
          isTerminal
            ? 'Typed into the terminal. A terminal does not report whether it was read'
            : 'Delivered, not read yet',
        ),
      };
    case 'consumed':
      return { ...common, ticks: 'read', word: 'Read', title: title('Read by the recipient') };
    case 'failed': {
      const isWithdrawn = error?.code === 'withdrawn';
      return {
        ...common,
        ticks: 'failed',
        word: isWithdrawn ? 'Withdrawn' : 'Failed',
        title: title(error?.message ?? 'The delivery failed'),
        canRedeliver: !isWithdrawn,
      };
    }
  }
}

const progress: Readonly<Record<DeliveryStatus, number>> = {
  failed: 0,
  accepted: 1,
  deferred: 1,
  delivered: 2,
  consumed: 3,
};

/** Of a message to several recipients: the one that is least far decides. Undefined without recipients. */
export function leastOf<Known extends KnownDelivery>(
  deliveries: readonly Known[],
): Known | undefined {
  return deliveries.toSorted((a, b) => progress[a.status] - progress[b.status])[0];
}

/** Not handed over yet: its message can still be changed or withdrawn. */
export function isQueued({ status, deliveredAt }: Delivery): boolean {
  return (status === 'accepted' || status === 'deferred') && deliveredAt === undefined;
}
