/** The filters of the list of runs. */
import { useEffect, useState } from 'react';
import { useAgents } from '../../../api/catalog.ts';
import { Button } from '../../../ui/button.tsx';
import { cx } from '../../../ui/cx.ts';
import { Input, Select } from '../../../ui/form.tsx';
import { lookOf, toneText } from '../../../ui/state.tsx';
import { isEmpty, type RunFilter, statuses } from './run-filter.ts';

interface FiltersProps {
  readonly filter: RunFilter;
  readonly onChange: (filter: RunFilter) => void;
}

const times = [
  ['', 'Any time'],
  ['today', 'Today'],
  ['24h', 'Last 24 hours'],
  ['7d', 'Last 7 days'],
  ['30d', 'Last 30 days'],
] as const;

export function Filters({ filter, onChange }: FiltersProps) {
  const [isOpen, setOpen] = useState(false);
  const [isShown, setShown] = useState(false);
  const agents = useAgents();
  const names = new Set(agents.data?.map(({ name }) => name));
  if (filter.agent !== undefined) names.add(filter.agent);
  const set = (changes: { readonly [Name in keyof RunFilter]?: RunFilter[Name] | undefined }) => {
    const next = Object.entries({ ...filter, ...changes }).filter(
      ([, value]) => value !== undefined,
    );
    onChange(Object.fromEntries(next) as unknown as RunFilter);
  };
  const isPreset = times.some(([value]) => value === (filter.since ?? ''));
  const hasRange = filter.until !== undefined || !isPreset;

  return (
    <div
      role="search"
      aria-label="Filter runs"
      className="flex flex-wrap items-center gap-2 border-b border-line px-4 py-1.5"
    >
      {/* On a phone the runs come first. */}
      <Button
        size="sm"
        aria-expanded={isShown}
        className="md:hidden"
        onClick={() => setShown(!isShown)}
      >
        {isEmpty(filter) ? 'Filter' : 'Filter (on)'}
      </Button>
      <div
        className={cx('flex flex-wrap items-center gap-2', isShown ? undefined : 'max-md:hidden')}
      >
        <div role="group" aria-label="Status" className="flex flex-wrap gap-1">
          {statuses.map((status) => {
            const { icon: Icon, label, tone } = lookOf(status);
            const isOn = filter.statuses.includes(status);
            return (
              <button
                key={status}
                type="button"
                aria-pressed={isOn}
                onClick={() =>
                  set({
                    statuses: statuses.filter((each) =>
                      each === status ? !isOn : filter.statuses.includes(each),
                    ),
                  })
                }
                className={cx(
                  'inline-flex h-7 items-center gap-1 rounded border px-2 text-xs pointer-coarse:h-11',
                  isOn
                    ? 'border-line-strong bg-selected font-medium text-text'
                    : 'border-line text-muted hover:bg-hover',
                )}
              >
                <Icon aria-hidden size={12} className={isOn ? toneText[tone] : undefined} />
                {label}
              </button>
            );
          })}
        </div>
        <Select
          aria-label="Agent"
          className="w-auto! max-w-40"
          value={filter.agent ?? ''}
          onChange={({ target }) => set({ agent: target.value || undefined })}
        >
          <option value="">Any agent</option>
          {[...names].map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </Select>
        <Select
          aria-label="Started"
          className="w-auto!"
          value={isPreset && !hasRange ? (filter.since ?? '') : 'range'}
          onChange={({ target }) => {
            if (target.value === 'range') setOpen(true);
            else set({ since: target.value || undefined, until: undefined });
          }}
        >
          {times.map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
          <option value="range">From … to …</option>
        </Select>
        {isOpen || hasRange || filter.label !== undefined || filter.conversation !== undefined ? (
          <>
            <TimeField label="From" value={filter.since} onChange={(since) => set({ since })} />
            <TimeField label="To" value={filter.until} onChange={(until) => set({ until })} />
            <TextFilter
              label="Label (name:value)"
              value={filter.label}
              pattern="[^:]+:.*"
              onChange={(label) => set({ label })}
            />
            <TextFilter
              label="Conversation id"
              value={filter.conversation}
              pattern="[0-9a-fA-F\-]{36}"
              onChange={(conversation) => set({ conversation })}
            />
          </>
        ) : (
          <Button kind="quiet" size="sm" onClick={() => setOpen(true)}>
            More filters
          </Button>
        )}
        {isEmpty(filter) ? null : (
          <Button
            kind="quiet"
            size="sm"
            onClick={() => {
              setOpen(false);
              onChange({ statuses: [] });
            }}
          >
            Clear
          </Button>
        )}
      </div>
    </div>
  );
}

interface TimeFieldProps {
  readonly label: string;
  readonly value: string | undefined;
  readonly onChange: (value: string | undefined) => void;
}

/** In local time, as the field of the platform has it; a relative time is shown as none. */
function TimeField({ label, value, onChange }: TimeFieldProps) {
  const time = value === undefined ? Number.NaN : Date.parse(value);
  const local = Number.isNaN(time)
    ? ''
    : new Date(time - new Date(time).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
  return (
    <label className="flex items-center gap-1 text-xs text-muted">
      {label}
      <Input
        type="datetime-local"
        className="w-auto!"
        value={local}
        onChange={({ target }) =>
          onChange(target.value === '' ? undefined : new Date(target.value).toISOString())
        }
      />
    </label>
  );
}

interface TextFilterProps {
  readonly label: string;
  readonly value: string | undefined;
  readonly pattern: string;
  readonly onChange: (value: string | undefined) => void;
}

/** Applied with Enter or when the field is left: each step would be a request. */
function TextFilter({ label, value = '', pattern, onChange }: TextFilterProps) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const isValid = text === '' || new RegExp(`^(?:${pattern})$`).test(text);
  const apply = () => {
    if (isValid && text !== value) onChange(text || undefined);
  };
  return (
    <Input
      aria-label={label}
      aria-invalid={!isValid}
      placeholder={label}
      className="w-44!"
      value={text}
      onChange={({ target }) => setText(target.value)}
      onBlur={apply}
      onKeyDown={({ key }) => {
        if (key === 'Enter') apply();
      }}
    />
  );
}
