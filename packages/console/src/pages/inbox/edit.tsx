/** Approves a call with other arguments: a form, what changes, and a check by the rules before it is sent. */
import type { Approval } from '@relay/protocol/wire';
import { useState } from 'react';
import { client } from '../../api/client.ts';
import { SafeText } from '../../text/safe-text.tsx';
import { Button } from '../../ui/button.tsx';
import { Field, TextArea } from '../../ui/form.tsx';
import { ErrorNotice } from '../../ui/notice.tsx';
import { Dialog } from '../../ui/overlay.tsx';
import { Refusal } from './always.tsx';
import { decide, useDecision } from './decisions.ts';
import { isObject, shownParams } from './words.ts';

interface EditProps {
  readonly approval: Approval;
  readonly digest: string;
  readonly onClose: () => void;
}

type Input = Record<string, NonNullable<Parameters<typeof decide>[2]['input']>>;

export function Edit({ approval, digest, onClose }: EditProps) {
  const { id, tool } = approval;
  const [text, setText] = useState(() => JSON.stringify(shownParams(approval), null, 2));
  const [error, setError] = useState<unknown>();
  const isSending = useDecision(id)?.status === 'sending';
  const input = parsed(text);
  const send = async () => {
    if (input === undefined) return;
    try {
      const { decision, reason } = await client.permissions.explain({
        tool,
        params: input,
        approvalId: id,
      });
      if (decision === 'deny') throw new Error(`The changed call would be denied: ${reason}`);
    } catch (thrown) {
      setError(thrown);
      return;
    }
    if (await decide(id, 'Approving', { approved: true, input, digest })) onClose();
  };
  return (
    <Dialog
      open
      onOpenChange={onClose}
      title={`Edit the call of ${tool}`}
      width="lg"
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            kind="approve"
            disabled={isSending || input === undefined}
            onClick={() => void send()}
          >
            {isSending ? 'Approving …' : 'Approve with changes'}
          </Button>
        </>
      }
    >
      <Field
        label="Arguments"
        error={input === undefined ? 'This is not a JSON object' : undefined}
      >
        {(ids) => (
          <TextArea
            {...ids}
            rows={12}
            className="font-mono"
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
        )}
      </Field>
      <SafeText text="" />
      {error === undefined ? null : <ErrorNotice error={error} />}
      <Refusal id={id} />
    </Dialog>
  );
}

function parsed(text: string): Input | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? (value as Input) : undefined;
  } catch {
    return undefined;
  }
}
