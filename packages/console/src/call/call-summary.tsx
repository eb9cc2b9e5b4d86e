import { Marked } from '../text/safe-text.tsx';
import { summaryOf } from './summary.ts';

interface CallSummaryProps {
  readonly tool: string;
  readonly params: unknown;
}

/** A call on one line of a list. What does not fit ends in an ellipsis. */
export function CallSummary({ tool, params }: CallSummaryProps) {
  return (
    <span dir="ltr" className="flex min-w-0 items-baseline gap-2">
      <span className="max-w-[50%] shrink-0 truncate font-medium">
        <Marked text={tool.slice(0, 200)} />
      </span>
      <span className="min-w-0 truncate font-mono text-xs text-muted">
        <Marked text={summaryOf(params)} />
      </span>
    </span>
  );
}
