import { CircleAlert } from 'lucide-react';
import { useDecision } from './decisions.ts';

/** Why the server has refused the last decision. */
export function Refusal({ id }: { readonly id: string }) {
  const decision = useDecision(id);
  if (decision?.status !== 'refused') return null;
  return (
    <p
      role="alert"
      className="mt-4 flex items-start gap-2 rounded bg-failed-soft p-3 text-sm text-failed"
    >
      <CircleAlert aria-hidden size={16} className="mt-0.5 shrink-0" />
      <span className="min-w-0 break-words whitespace-pre-line">{decision.message}</span>
    </p>
  );
}
