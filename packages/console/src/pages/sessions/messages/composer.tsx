/** Writes a message to a session or a channel. */
import type { SessionAttachment } from '@relay/protocol/wire';
import { defined } from '@relay/protocol/wire';
import type { DeliveryMode, Session, SessionMessage } from '@relay/sdk';
import { useMutation } from '@tanstack/react-query';
import { Paperclip, Send, X } from 'lucide-react';
import { type KeyboardEvent, useEffect, useId, useRef, useState } from 'react';
import { client } from '../../../api/client.ts';
import { SafeText } from '../../../text/safe-text.tsx';
import { Button, IconButton } from '../../../ui/button.tsx';
import { cx } from '../../../ui/cx.ts';
import { Select, TextArea } from '../../../ui/form.tsx';
import { errorText } from '../../../ui/notice.tsx';
import { formatCount } from '../../../ui/values.tsx';
import { defaultMode, modes } from '../abilities.ts';
import { mentionAt, mentionsOfOthers } from './mention.ts';

interface ComposerProps {
  /** `@handle` or `#channel`. */
  readonly to: string;
  /** What the recipient can do. Left out for a channel, whose members differ. */
  readonly session?: Session;
  /** Why nothing can be sent. */
  readonly disabledReason?: string | undefined;
  readonly replyTo?: SessionMessage | undefined;
  readonly onReplied?: () => void;
  /** It is what a person came for: where there is a keyboard, it has the focus at first. */
  readonly isFirst?: boolean;
  /** Of the members of a channel, to complete after `@`. */
  readonly handles?: readonly string[];
  readonly onSent: (message: SessionMessage) => void;
}

interface Attached {
  readonly name: string;
  readonly part: SessionAttachment;
}

export function Composer(props: ComposerProps) {
  const { to, session, disabledReason, replyTo, onReplied, handles = [], onSent } = props;
  const { isFirst = false } = props;
  const [text, setText] = useState('');
  const [mode, setMode] = useState<DeliveryMode>();
  const [attached, setAttached] = useState<readonly Attached[]>([]);
  const [cursor, setCursor] = useState(0);
  const [choice, setChoice] = useState(0);
  const area = useRef<HTMLTextAreaElement>(null);
  const files = useRef<HTMLInputElement>(null);
  const hint = useId();
  const send = useMutation({
    mutationFn: () =>
      client.messages.send({
        to,
        text,
        ...defined({
          mode,
          replyTo: replyTo?.id,
          attachments: attached.length === 0 ? undefined : attached.map(({ part }) => part),
        }),
      }),
    onSuccess: (message) => {
      setText('');
      setAttached([]);
      onReplied?.();
      onSent(message);
      area.current?.focus();
    },
  });
  useEffect(() => {
    if (replyTo !== undefined) area.current?.focus();
  }, [replyTo]);

  const isDisabled = disabledReason !== undefined;
  const isEmpty = text.trim() === '' && attached.length === 0;
  const submit = () => {
    if (!isEmpty && !isDisabled && !send.isPending) send.mutate();
  };
  const accepted = session?.capabilities.messaging.attachments ?? [];
  const mention = mentionAt(text, cursor, handles);
  // The one that is being typed is not complete.
  const others = mention === undefined ? mentionsOfOthers(text, handles) : [];
  const complete = (handle: string) => {
    if (mention === undefined) return;
    const after = `${text.slice(0, mention.start)}@${handle} `;
    setText(after + text.slice(cursor));
    setCursor(after.length);
    area.current?.focus();
    requestAnimationFrame(() => area.current?.setSelectionRange(after.length, after.length));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return;
    if (mention !== undefined) {
      const count = mention.matches.length;
      const chosen = mention.matches[choice % count];
      if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
        event.preventDefault();
        setChoice((choice + (event.key === 'ArrowDown' ? 1 : count - 1)) % count);
        return;
      }
      if ((event.key === 'Enter' || event.key === 'Tab') && chosen !== undefined) {
        event.preventDefault();
        complete(chosen);
        return;
      }
    }
    if (event.key === 'Enter' && !event.shiftKey && !matchMedia('(pointer: coarse)').matches) {
      event.preventDefault();
      submit();
    }
  };

  return (
    <form
      className="flex flex-col gap-2 border-t border-line bg-surface p-3"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      {replyTo === undefined ? null : (
        <div className="flex items-center gap-2 text-xs text-muted">
          <span className="min-w-0 flex-1 truncate">
            Reply to <SafeText text={`${replyTo.from.name}: ${replyTo.text.slice(0, 120)}`} />
          </span>
          <IconButton label="Do not reply" onClick={() => onReplied?.()}>
            <X aria-hidden size={14} />
          </IconButton>
        </div>
      )}
      {attached.map(({ name }, index) => (
        <div key={index} className="flex items-center gap-2 text-xs text-muted">
          <Paperclip aria-hidden size={12} />
          <span className="min-w-0 flex-1 truncate">
            <SafeText text={name} />
          </span>
          <IconButton
            label={`Remove ${name}`}
            onClick={() => setAttached(attached.filter((_, other) => other !== index))}
          >
            <X aria-hidden size={14} />
          </IconButton>
        </div>
      ))}
      {mention === undefined ? null : (
        <ul role="listbox" aria-label="Sessions" className="flex flex-wrap gap-1">
          {mention.matches.map((handle, index) => (
            <li
              key={handle}
              role="option"
              aria-selected={index === choice % mention.matches.length}
              className={cx(
                'cursor-default rounded-sm border border-line px-2 py-1 text-sm pointer-coarse:min-h-11',
                index === choice % mention.matches.length && 'bg-selected',
              )}
              onMouseDown={(event) => {
                event.preventDefault();
                complete(handle);
              }}
            >
              @{handle}
            </li>
          ))}
        </ul>
      )}
      <Others handles={props.handles === undefined ? [] : others} to={to} />
      <TextArea
        ref={area}
        autoFocus={isFirst && !matchMedia('(pointer: coarse)').matches}
        aria-label={`Message to ${to}`}
        aria-describedby={hint}
        placeholder={isDisabled ? disabledReason : `Message to ${to}`}
        rows={Math.min(
          8,
          Math.max(matchMedia('(width < 768px)').matches ? 1 : 2, text.split('\n').length),
        )}
        disabled={isDisabled}
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setCursor(event.target.selectionStart);
          setChoice(0);
        }}
        onSelect={(event) => setCursor(event.currentTarget.selectionStart)}
        onKeyDown={onKeyDown}
      />
      {send.error === null ? null : (
        <div role="alert" className="text-sm break-words text-failed">
          It was not sent: {errorText(send.error)}
        </div>
      )}
      <div className="flex flex-wrap items-center gap-2">
        {session === undefined ? null : (
          <ModeSelect session={session} mode={mode} onChange={setMode} />
        )}
        <p
          id={hint}
          className="order-last min-w-0 basis-full text-xs text-muted sm:order-none sm:flex-1 sm:basis-40"
        >
          {isDisabled
            ? disabledReason
            : session === undefined
              ? 'Each member receives it. Those that you mention answer.'
              : aboutMode(mode ?? defaultMode(session))}
        </p>
        {accepted.length === 0 ? null : (
          <>
            <input
              ref={files}
              type="file"
              hidden
              multiple
              accept={accepted
                .map((type) => (type === 'image' ? 'image/*' : 'text/*,.md,.json,.csv,.log,.patch'))
                .join(',')}
              onChange={(event) => {
                const chosen = [...(event.target.files ?? [])];
                event.target.value = '';
                void Promise.all(chosen.map(readFile)).then((read) =>
                  setAttached((before) => [...before, ...read]),
                );
              }}
            />
            <IconButton
              label={`Attach ${accepted.join(' or ')} files`}
              disabled={isDisabled}
              onClick={() => files.current?.click()}
            >
              <Paperclip aria-hidden size={16} />
            </IconButton>
          </>
        )}
        <Button
          kind="primary"
          type="submit"
          className="ml-auto"
          disabled={isDisabled || isEmpty || send.isPending}
          title={disabledReason}
        >
          <Send aria-hidden size={14} /> {send.isPending ? 'Sending …' : 'Send'}
        </Button>
      </div>
    </form>
  );
}

/** Says before the message is sent who does not receive it. */
function Others({ handles, to }: { readonly handles: readonly string[]; readonly to: string }) {
  if (handles.length === 0) return null;
  const names = handles.map((handle) => `@${handle}`).join(', ');
  return (
    <p role="status" className="text-sm break-words text-waiting">
      {handles.length === 1
        ? `${names} is not a member of ${to} and does not receive this message.`
        : `${names} are not members of ${to} and do not receive this message.`}
    </p>
  );
}

function aboutMode(mode: DeliveryMode): string {
  return modes.find((each) => each.mode === mode)?.about ?? '';
}

interface ModeSelectProps {
  readonly session: Session;
  /** Undefined: the default of the session. */
  readonly mode: DeliveryMode | undefined;
  readonly onChange: (mode: DeliveryMode) => void;
}

/** What the session does not declare is greyed, and says so. */
export function ModeSelect({ session, mode, onChange }: ModeSelectProps) {
  const declared = session.capabilities.delivery.modes;
  return (
    <Select
      aria-label="When it is delivered"
      className="w-auto!"
      value={mode ?? defaultMode(session)}
      onChange={(event) => {
        const chosen = modes.find((each) => each.mode === event.target.value);
        if (chosen !== undefined) onChange(chosen.mode);
      }}
    >
      {modes.map((each) => {
        const isDeclared = declared.includes(each.mode);
        return (
          <option key={each.mode} value={each.mode} disabled={!isDeclared} title={each.about}>
            {isDeclared ? each.label : `${each.label} (the session does not offer it)`}
          </option>
        );
      })}
    </Select>
  );
}

async function readFile(file: File): Promise<Attached> {
  const name = `${file.name}, ${formatCount(file.size)} bytes`;
  if (!file.type.startsWith('image/')) {
    return { name, part: { type: 'text', text: `${file.name}\n\n${await file.text()}` } };
  }
  return { name, part: { type: 'image', mediaType: file.type, data: await base64Of(file) } };
}

async function base64Of(file: File): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));
}
