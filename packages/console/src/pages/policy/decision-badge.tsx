import type { Explanation } from '@relay/protocol/wire';
import { Ban, CircleCheck, Hand } from 'lucide-react';
import { Badge } from '../../ui/state.tsx';

/** What the rules say about a call. */
export function DecisionBadge({ decision }: { readonly decision: Explanation['decision'] }) {
  switch (decision) {
    case 'allow':
      return (
        <Badge tone="done" icon={CircleCheck}>
          Allowed
        </Badge>
      );
    case 'deny':
      return (
        <Badge tone="failed" icon={Ban}>
          Denied
        </Badge>
      );
    case 'ask':
      return (
        <Badge tone="waiting" icon={Hand}>
          Asks
        </Badge>
      );
  }
}
