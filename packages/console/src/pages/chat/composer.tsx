/** Writes a message. Enter sends it; on a phone, where Enter is a new line, the button does. */
import type { MessageContent } from '@relay/protocol/wire';
import { ArrowUp, Paperclip, Square, X } from 'lucide-react';
import {
  type ClipboardEvent,
  type DragEvent,
  type KeyboardEvent,
  useEffect,
  useId,
  useLayoutEffect,
  useRef,
  useState,
} from 'react';
import { Button, IconButton } from '../../ui/button.tsx';
import { cx } from '../../ui/cx.ts';
import { Input, Select } from '../../ui/form.tsx';
import { errorText } from '../../ui/notice.tsx';
import { attach, type Attached, contentOf, formatSize, whyTooMuch } from './attachments.ts';
import { type Choice, resolved } from './choice.ts';
import { Chip } from './content.tsx';
import { useAgents, useModels } from '../../api/catalog.ts';

interface ComposerProps {
  /** Drafts are kept by it while the page is open. */
  readonly draftKey: string;
  /** Who answers, until the person chooses another one. */
  readonly choice: Choice;
  readonly onSend: (content: MessageContent, choice: Choice) => void;
  /** Set while a run is going: it receives the message. */
  readonly running?: { readonly stop: () => void; readonly isStopping: boolean } | undefined;
  /** What is happening: the connection, a request that waits. */
  readonly status?: string | undefined;
  readonly isFocused?: boolean;
}

const drafts = new Map<string, string>();

export function Composer(props: ComposerProps) {
  const { draftKey, onSend, running, status, isFocused = false } = props;
  const [text, setText] = useState(() => drafts.get(draftKey) ?? '');
  const [attached, setAttached] = useState<readonly Attached[]>([]);
  const [problem, setProblem] = useState<string>();
  const [chosen, setChosen] = useState<Partial<Choice>>({});
  const area = useRef<HTMLTextAreaElement>(null);
  const files = useRef<HTMLInputElement>(null);
  const hint = useId();
  const { data: agents } = useAgents();
  const { data: models } = useModels();
  const wanted = { ...props.choice, ...chosen };
  const choice =
    agents === undefined || models === undefined ? wanted : resolved(wanted, agents, models);

  const write = (next: string) => {
    setText(next);
    drafts.set(draftKey, next);
  };
  // It grows with its text, up to a third of the page.
  useLayoutEffect(() => {
    const { current } = area;
    if (current === null) return;
    current.style.height = 'auto';
    current.style.height = `${Math.min(current.scrollHeight, innerHeight / 3)}px`;
  }, [text]);
  useEffect(() => {
    if (isFocused && !matchMedia('(pointer: coarse)').matches) area.current?.focus();
  }, [isFocused]);

  const isRunning = running !== undefined;
  const isEmpty = text.trim() === '' && attached.length === 0;
  /** A run that is going receives text alone. */
  const whyNot =
    isRunning && attached.length > 0 ? 'Files can be sent when the answer is complete.' : undefined;
  const submit = () => {
    if (isEmpty || whyNot !== undefined) return;
    onSend(contentOf(text, attached), choice);
    write('');
    setAttached([]);
    setProblem(undefined);
    area.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
    if (matchMedia('(pointer: coarse)').matches) return;
    event.preventDefault();
    submit();
  };
  const addFiles = async (added: readonly File[]) => {
    if (added.length === 0) return;
    const why = whyTooMuch(attached, added);
    setProblem(why);
    if (why !== undefined) return;
    try {
      const read = await Promise.all(added.map(attach));
      setAttached((before) => [...before, ...read]);
    } catch (error) {
      setProblem(errorText(error));
    }
  };
  const onPaste = (event: ClipboardEvent) => {
    const pasted = [...event.clipboardData.files];
    if (pasted.length === 0) return;
    event.preventDefault();
    void addFiles(pasted);
  };
  const onDrop = (event: DragEvent) => {
    if (event.dataTransfer.files.length === 0) return;
    event.preventDefault();
    void addFiles([...event.dataTransfer.files]);
  };

  return (
    <form
      aria-label="New message"
      className="mx-auto w-full max-w-[860px] shrink-0 px-3 pb-3 sm:px-4"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
      onDragOver={(event) => event.preventDefault()}
      onDrop={onDrop}
    >
      <p role="status" id={hint} className="flex min-h-6 items-center px-1 text-xs text-muted">
        <span className="min-w-0 truncate">{status}</span>
      </p>
      <div className="rounded border border-line-strong bg-surface focus-within:border-focus focus-within:outline-1 focus-within:-outline-offset-1 focus-within:outline-focus">
        {attached.length === 0 ? null : (
          <ul aria-label="Attached files" className="flex flex-wrap gap-2 px-3 pt-3">
            {attached.map(({ key, name, size, part }) => (
              <li key={key}>
                <Chip
                  name={name}
                  about={`${part.mediaType ?? ''}, ${formatSize(size)}`}
                  isImage={part.type === 'image'}
                >
                  <IconButton
                    label={`Remove ${name}`}
                    className="h-6! w-6!"
                    onClick={() => setAttached(attached.filter((each) => each.key !== key))}
                  >
                    <X aria-hidden size={14} />
                  </IconButton>
                </Chip>
              </li>
            ))}
          </ul>
        )}
        <textarea
          ref={area}
          aria-label="Message"
          aria-describedby={hint}
          placeholder={
            isRunning ? 'Add something for the agent to read' : `Message to ${choice.agent ?? '…'}`
          }
          rows={1}
          value={text}
          dir="auto"
          enterKeyHint="enter"
          onChange={(event) => write(event.target.value)}
          onKeyDown={onKeyDown}
          onPaste={onPaste}
          // A phone zooms into fields with smaller text.
          className="block max-h-[33dvh] min-h-11 w-full resize-none bg-transparent px-3 py-2.5 text-base outline-none pointer-coarse:text-lg"
        />
        <div className="flex flex-wrap items-center gap-2 p-2 pt-0">
          <input
            ref={files}
            type="file"
            hidden
            multiple
            aria-label="Files to attach"
            onChange={(event) => {
              const picked = [...(event.target.files ?? [])];
              event.target.value = '';
              void addFiles(picked);
            }}
          />
          <IconButton
            label="Attach images or files"
            disabled={isRunning}
            onClick={() => files.current?.click()}
          >
            <Paperclip aria-hidden size={16} />
          </IconButton>
          <Select
            aria-label="Agent"
            className="w-auto! max-w-36 min-w-0"
            disabled={isRunning || agents === undefined}
            value={choice.agent ?? ''}
            onChange={(event) => setChosen({ agent: event.target.value, model: undefined })}
          >
            {agents?.map(({ name, description }) => (
              <option key={name} value={name} title={description}>
                {name}
              </option>
            ))}
          </Select>
          <ModelSelect
            model={choice.model}
            ids={(models?.models ?? []).map(({ id }) => id)}
            isDisabled={isRunning || models === undefined}
            onChange={(model) => setChosen((before) => ({ ...before, model }))}
          />
          <span className="ml-auto flex items-center gap-2">
            {isRunning ? (
              <Button disabled={running.isStopping} onClick={running.stop}>
                <Square aria-hidden size={12} fill="currentColor" />
                {running.isStopping ? 'Stopping …' : 'Stop'}
              </Button>
            ) : null}
            <Button
              kind="primary"
              type="submit"
              disabled={isEmpty || whyNot !== undefined}
              title={whyNot}
            >
              <ArrowUp aria-hidden size={16} /> Send
            </Button>
          </span>
        </div>
      </div>
      {problem === undefined && whyNot === undefined ? null : (
        <p
          role="alert"
          className={cx('mt-1 px-1 text-xs', problem === undefined ? 'text-muted' : 'text-failed')}
        >
          {problem ?? whyNot}
        </p>
      )}
    </form>
  );
}

interface ModelSelectProps {
  readonly model: string | undefined;
  readonly ids: readonly string[];
  readonly isDisabled: boolean;
  readonly onChange: (model: string) => void;
}

const other = ' other';

/** A provider with its own address offers models that are not listed: any name can be written. */
function ModelSelect({ model, ids, isDisabled, onChange }: ModelSelectProps) {
  const [isWriting, setWriting] = useState(false);
  const known = model === undefined || ids.includes(model) ? ids : [model, ...ids];
  if (isWriting) {
    return (
      <Input
        aria-label="Model"
        autoFocus
        placeholder="provider:model"
        className="w-44!"
        defaultValue=""
        onBlur={(event) => {
          const name = event.target.value.trim();
          if (name !== '') onChange(name);
          setWriting(false);
        }}
        onKeyDown={(event) => {
          if (event.key !== 'Enter' && event.key !== 'Escape') return;
          event.preventDefault();
          if (event.key === 'Escape') event.currentTarget.value = '';
          event.currentTarget.blur();
        }}
      />
    );
  }
  return (
    <Select
      aria-label="Model"
      className="w-auto! max-w-40 min-w-0"
      disabled={isDisabled}
      value={model ?? ''}
      onChange={(event) => {
        if (event.target.value === other) setWriting(true);
        else onChange(event.target.value);
      }}
    >
      {known.map((id) => (
        <option key={id} value={id}>
          {id}
        </option>
      ))}
      <option value={other}>Other …</option>
    </Select>
  );
}
