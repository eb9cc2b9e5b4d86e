/** Asks for a reason, in place of the buttons that asked for it. */
import { useState } from 'react';
import { Button } from '../../ui/button.tsx';
import { Field, TextArea } from '../../ui/form.tsx';

interface ReasonProps {
  readonly label: string;
  /** The verb of what is done with the reason. */
  readonly action: string;
  readonly isBusy: boolean;
  readonly onCancel: () => void;
  readonly onSend: (reason: { readonly reason?: string }) => void;
}

/** Enter sends it, Shift Enter starts a new line, Escape goes back. */
export function Reason({ label, action, isBusy, onCancel, onSend }: ReasonProps) {
  const [text, setText] = useState('');
  const send = () => onSend(text.trim() === '' ? {} : { reason: text.trim() });
  return (
    <form
      className="flex flex-col gap-2"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <Field label={label}>
        {(ids) => (
          <TextArea
            {...ids}
            autoFocus
            rows={2}
            maxLength={10_000}
            placeholder="Optional"
            value={text}
            onChange={(event) => setText(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === 'Escape') onCancel();
              if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
              event.preventDefault();
              if (!isBusy) send();
            }}
          />
        )}
      </Field>
      <div className="flex justify-end gap-2">
        <Button disabled={isBusy} onClick={onCancel}>
          Cancel
        </Button>
        <Button kind="danger" type="submit" disabled={isBusy}>
          {action}
        </Button>
      </div>
    </form>
  );
}
