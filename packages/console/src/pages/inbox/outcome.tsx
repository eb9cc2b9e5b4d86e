/** A tool was started before a crash or a stop of the server: the evidence, and the three answers. */
import { escapeMisleading } from '@relay/protocol/display';
import type { Approval } from '@relay/protocol/wire';
import { useState } from 'react';
import { Link } from 'wouter';
import { parseExactly } from '../../text/exact-json.ts';
import { SafeText } from '../../text/safe-text.tsx';
import { Button } from '../../ui/button.tsx';
import { Field, TextArea } from '../../ui/form.tsx';
import { CopyButton, shortId, Time } from '../../ui/values.tsx';
import { useRunContext } from './context.tsx';
import { decide, type JsonInput } from './decisions.ts';
import { Reason } from './reason.tsx';
import { evidenceOf } from './steps.ts';

export function Evidence({ approval }: { readonly approval: Approval }) {
  const { runId, toolCallId, tool, idempotencyKey } = approval;
  const { data } = useRunContext(approval);
  const { startedAt, seq, progress } = evidenceOf(data?.events ?? [], toolCallId);
  return (
    <div className="rounded border border-line bg-surface p-4">
      <h3 className="text-base font-semibold">
        This tool was started before a crash or a stop of the server. Did it take effect?
      </h3>
      <p className="mt-1 text-sm text-muted">
        {escapeMisleading(tool)} may have done its work, or part of it. Look at what it changes
        before you answer: running it again does the work a second time.
      </p>
      <ul className="mt-3 flex flex-col gap-1 text-sm">
        {startedAt.map((at, index) => (
          <li key={at}>
            {index === 0 ? 'Started' : 'Started again'} at <Time at={at} />
            {index < startedAt.length - 1 || runId === undefined || seq === undefined ? null : (
              <>
                {' · '}
                <Link
                  href={`/runs/${runId}?seq=${seq}`}
                  className="text-working underline underline-offset-2"
                >
                  entry #{seq} of the journal
                </Link>
              </>
            )}
          </li>
        ))}
        {approval.runId === undefined || data === undefined || startedAt.length > 0 ? null : (
          <li className="text-muted">The start of the call is not among the last events.</li>
        )}
        <li>No result was stored.</li>
        {idempotencyKey === undefined ? null : (
          <li>
            Idempotency key <code className="font-mono text-xs">{shortId(idempotencyKey)}</code>
            <CopyButton text={idempotencyKey} label="idempotency key" /> (to find the call in the
            other system)
          </li>
        )}
        {progress === undefined ? null : (
          <li>
            The last thing it reported:{' '}
            <span className="font-mono text-xs">
              <SafeText text={progress} maxLength={600} />
            </span>
          </li>
        )}
      </ul>
    </div>
  );
}

interface OutcomeProps {
  readonly approval: Approval;
  readonly digest: string;
  readonly isBusy: boolean;
}

export function OutcomeActions({ approval: { id }, digest, isBusy }: OutcomeProps) {
  const [answer, setAnswer] = useState<'completed' | 'failed'>();
  if (answer === 'completed') {
    return (
      <CompletedForm
        isBusy={isBusy}
        onCancel={() => setAnswer(undefined)}
        onSend={(output) => void decide(id, 'Recording', { outcome: 'completed', output, digest })}
      />
    );
  }
  if (answer === 'failed') {
    return (
      <Reason
        label="Why is it treated as failed? The agent reads this."
        action="Treat as failed"
        isBusy={isBusy}
        onCancel={() => setAnswer(undefined)}
        onSend={(reason) => void decide(id, 'Recording', { outcome: 'failed', digest, ...reason })}
      />
    );
  }
  return (
    <div className="flex flex-wrap gap-2 max-sm:flex-col">
      <Button kind="primary" disabled={isBusy} onClick={() => setAnswer('completed')}>
        It took effect…
      </Button>
      <Button
        disabled={isBusy}
        onClick={() => void decide(id, 'Running again', { outcome: 'rerun', digest })}
      >
        It did not: run it again
      </Button>
      <Button kind="danger" disabled={isBusy} onClick={() => setAnswer('failed')}>
        Treat as failed…
      </Button>
    </div>
  );
}

interface CompletedFormProps {
  readonly isBusy: boolean;
  readonly onCancel: () => void;
  readonly onSend: (output: JsonInput) => void;
}

function CompletedForm({ isBusy, onCancel, onSend }: CompletedFormProps) {
  const [text, setText] = useState('');
  return (
    <form
      className="flex flex-col gap-2"
      onSubmit={(event) => {
        event.preventDefault();
        onSend(jsonOrText(text));
      }}
    >
      <Field
        label="What did it return?"
        hint="The agent reads this as the result: JSON, or a text."
      >
        {(ids) => (
          <TextArea
            {...ids}
            autoFocus
            rows={2}
            required
            className="font-mono"
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
        )}
      </Field>
      <div className="flex justify-end gap-2">
        <Button disabled={isBusy} onClick={onCancel}>
          Cancel
        </Button>
        <Button kind="primary" type="submit" disabled={isBusy}>
          It took effect, with this result
        </Button>
      </div>
    </form>
  );
}

function jsonOrText(text: string): JsonInput {
  try {
    return parseExactly(text) as JsonInput;
  } catch {
    return text;
  }
}
