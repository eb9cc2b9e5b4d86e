/** A question of a tool or an agent: its answer as a form. */
import type { Approval } from '@relay/protocol/wire';
import { useState } from 'react';
import { Button } from '../../ui/button.tsx';
import { Field, TextArea } from '../../ui/form.tsx';
import { decide } from './decisions.ts';
import { Reason } from './reason.tsx';

interface QuestionProps {
  readonly approval: Approval;
  readonly digest: string;
  readonly isBusy: boolean;
}

export function Question({ approval: { id, schema }, digest, isBusy }: QuestionProps) {
  const [isDeclining, setDeclining] = useState(false);
  const [text, setText] = useState('{}');
  const send = () => {
    const input = JSON.parse(text) as NonNullable<Parameters<typeof decide>[2]['input']>;
    void decide(id, 'Answering', { approved: true, input, digest });
  };
  if (isDeclining) {
    return (
      <Reason
        label="Why is there no answer? The agent reads this."
        action="Decline"
        isBusy={isBusy}
        onCancel={() => setDeclining(false)}
        onSend={(reason) => void decide(id, 'Declining', { approved: false, digest, ...reason })}
      />
    );
  }
  return (
    <div className="flex flex-col gap-2">
      <Field label="Answer" hint={JSON.stringify(schema)}>
        {(ids) => (
          <TextArea
            {...ids}
            rows={4}
            className="font-mono"
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
        )}
      </Field>
      <div className="flex gap-2">
        <Button kind="approve" disabled={isBusy} onClick={send}>
          Answer
        </Button>
        <Button kind="danger" disabled={isBusy} onClick={() => setDeclining(true)}>
          Decline…
        </Button>
      </div>
    </div>
  );
}
