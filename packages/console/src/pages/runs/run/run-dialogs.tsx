/** Dialogs that continue a run: with a message, or as a fork. */
import type { Run, RunMessageBody } from '@relay/protocol/wire';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import { useModels } from '../../../api/catalog.ts';
import { client } from '../../../api/client.ts';
import { Button } from '../../../ui/button.tsx';
import { Field, Select, TextArea } from '../../../ui/form.tsx';
import { errorText } from '../../../ui/notice.tsx';
import { Dialog } from '../../../ui/overlay.tsx';
import { toast } from '../../../ui/toast.tsx';
import { inputText } from '../list/run-filter.ts';
import type { JournalState } from '../../../transcript/journal.ts';

interface ForkDialogProps {
  readonly run: Run;
  readonly journal: JournalState;
  readonly cursor: number;
  readonly onClose: () => void;
}

export function ForkDialog({ run, journal, cursor, onClose }: ForkDialogProps) {
  const [, navigate] = useLocation();
  const isAtEnd = cursor >= journal.lastSeq;
  // At the end the server chooses: before a turn that was interrupted.
  const seq = isAtEnd ? undefined : journal.fold.timeline.boundaryUpTo(cursor);
  const [input, setInput] = useState(typeof run.input === 'string' ? run.input : inputText(run));
  const [model, setModel] = useState(run.model);
  const models = useModels();
  const names = new Set([run.model, ...(models.data?.models.map(({ id }) => id) ?? [])]);
  const fork = useMutation({
    mutationFn: () =>
      client.runs.fork(run.id, {
        ...(seq === undefined ? {} : { seq }),
        ...(input.trim() === '' ? {} : { input }),
        ...(model === run.model ? {} : { model }),
      }),
    onSuccess: ({ id }) => {
      onClose();
      navigate(`/runs/${id}`);
    },
  });
  const isImpossible = !isAtEnd && seq === undefined;
  return (
    <Dialog
      open
      onOpenChange={onClose}
      title="Fork this run"
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            kind="primary"
            disabled={fork.isPending || isImpossible}
            onClick={() => fork.mutate()}
          >
            Start the fork
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-3">
        <p className="text-sm text-muted">
          {isImpossible
            ? 'There is no point before the cursor at which this run can be forked. Move the cursor to a later event.'
            : seq === undefined
              ? 'A new run begins with everything up to the end of this one.'
              : `A new run begins with everything up to event ${seq}${seq === cursor ? '' : `, the last one before event ${cursor} at which no turn is open`}.`}{' '}
          This run does not change. Tools that have run are not undone.
        </p>
        <Field
          label="Input"
          hint="Added after what was said up to there. Leave it empty to let the agent continue."
        >
          {(ids) => (
            <TextArea
              {...ids}
              rows={5}
              autoFocus
              value={input}
              onChange={({ target }) => setInput(target.value)}
            />
          )}
        </Field>
        <Field label="Model">
          {(ids) => (
            <Select {...ids} value={model} onChange={({ target }) => setModel(target.value)}>
              {[...names].map((name) => (
                <option key={name} value={name}>
                  {name}
                </option>
              ))}
            </Select>
          )}
        </Field>
        <Failure error={fork.error} />
      </div>
    </Dialog>
  );
}

const modes: readonly (readonly [NonNullable<RunMessageBody['mode']>, string])[] = [
  ['next-message', 'After its answer'],
  ['next-tool-call', 'Before its next tool call'],
  ['immediate', 'At once, interrupting what it writes'],
];

export function MessageDialog({
  run,
  onClose,
}: {
  readonly run: Run;
  readonly onClose: () => void;
}) {
  const [text, setText] = useState('');
  const [mode, setMode] = useState<NonNullable<RunMessageBody['mode']>>('next-message');
  const send = useMutation({
    mutationFn: () => client.runs.message(run.id, { text, mode }),
    onSuccess: () => {
      toast('The message is stored; the transcript shows when the agent reads it');
      onClose();
    },
  });
  return (
    <Dialog
      open
      onOpenChange={onClose}
      title="Send a message to this run"
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            kind="primary"
            disabled={text.trim() === '' || send.isPending}
            onClick={() => send.mutate()}
          >
            Send
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-3">
        <Field label="Message">
          {(ids) => (
            <TextArea
              {...ids}
              rows={4}
              autoFocus
              value={text}
              onChange={({ target }) => setText(target.value)}
            />
          )}
        </Field>
        <Field label="When the agent gets it">
          {(ids) => (
            <Select
              {...ids}
              value={mode}
              onChange={({ target }) =>
                setMode(modes.find(([name]) => name === target.value)?.[0] ?? 'next-message')
              }
            >
              {modes.map(([name, label]) => (
                <option key={name} value={name}>
                  {label}
                </option>
              ))}
            </Select>
          )}
        </Field>
        <Failure error={send.error} />
      </div>
    </Dialog>
  );
}

function Failure({ error }: { readonly error: unknown }) {
  if (error === null) return null;
  return (
    <p role="alert" className="text-sm whitespace-pre-line text-failed">
      {errorText(error)}
    </p>
  );
}
