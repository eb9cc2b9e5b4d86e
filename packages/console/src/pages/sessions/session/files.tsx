/** The files that a session has changed, with their differences. */
import { escapeMisleading } from '@relay/protocol/display';
import type { Session } from '@relay/sdk';
import { useEffect, useMemo } from 'react';
import { useSearchParams } from 'wouter';
import { Diff, DiffOf } from '../../../text/diff.tsx';
import { SafeText } from '../../../text/safe-text.tsx';
import { cx } from '../../../ui/cx.ts';
import { Empty, Loading } from '../../../ui/notice.tsx';
import { Badge } from '../../../ui/state.tsx';
import { formatCount, Time } from '../../../ui/values.tsx';
import { type ChangedFile, changedFiles } from './changed-files.ts';
import { Older } from './conversation.tsx';
import type { Journal } from './journal.ts';

/** The most that the server gives at once. */
const largestPage = 5_000;

interface FilesProps {
  readonly session: Session;
  readonly journal: Journal;
}

export function Files({ session, journal }: FilesProps) {
  const [search, setSearch] = useSearchParams();
  const { events, isComplete, isLoading, error, loadOlder } = journal;
  const files = useMemo(() => changedFiles(events), [events]);
  // A file may have been changed at the very beginning.
  useEffect(() => {
    if (!isComplete && !isLoading && error === undefined) loadOlder(largestPage);
  }, [isComplete, isLoading, error, loadOlder]);
  const selected = files.find(({ path }) => path === search.get('file')) ?? files[0];
  const isReading = !isComplete;

  if (error !== undefined) return <Older journal={journal} />;
  if (files.length === 0) {
    if (isReading) return <Loading />;
    const { emits } = session.capabilities.events;
    const isReported = emits.includes('file.changed') || emits.includes('tool.called');
    return (
      <Empty title="No file was changed">
        {isReported
          ? 'Files that the session creates, changes or deletes are shown here, with their differences.'
          : 'The session does not report changes of files: it does not declare file.changed.'}
      </Empty>
    );
  }
  return (
    <div className="flex min-h-0 flex-1 flex-col min-[900px]:flex-row">
      <nav
        aria-label="Files"
        className="max-h-48 shrink-0 overflow-y-auto border-b border-line p-2 min-[900px]:max-h-none min-[900px]:w-80 min-[900px]:border-r min-[900px]:border-b-0"
      >
        {isReading ? (
          <p role="status" className="px-2 py-1 text-xs text-muted">
            Reading the journal, {formatCount(events.length)} of {formatCount(session.lastSeq)} …
          </p>
        ) : null}
        {files.map((file) => (
          <button
            key={file.path}
            type="button"
            aria-current={file === selected}
            className={cx(
              'flex min-h-9 w-full items-center gap-2 rounded px-2 text-left pointer-coarse:min-h-11',
              file === selected ? 'bg-selected' : 'hover:bg-hover',
            )}
            onClick={() =>
              setSearch((before) => {
                const next = new URLSearchParams(before);
                next.set('file', file.path);
                return next;
              })
            }
          >
            <span
              className="min-w-0 flex-1 truncate font-mono text-xs"
              title={escapeMisleading(file.path)}
            >
              <SafeText text={file.path} />
            </span>
            <Operation file={file} />
          </button>
        ))}
      </nav>
      <div className="min-h-0 min-w-0 flex-1 overflow-auto p-4">
        {selected?.changes.map((change) => (
          <section key={change.seq} className="mb-4">
            <h2 className="mb-1 flex items-center gap-2 text-xs text-muted">
              <Time at={change.at} /> {words[change.operation]}
            </h2>
            {change.diff === undefined ? null : <Diff text={change.diff} />}
            {change.edits?.map(({ before, after }, index) => (
              <div key={index} className="mb-2">
                <DiffOf before={before} after={after} />
              </div>
            ))}
            {change.diff === undefined && change.edits === undefined ? (
              <p className="text-sm text-muted">The session did not report what has changed.</p>
            ) : null}
          </section>
        ))}
      </div>
    </div>
  );
}

const words: Readonly<Record<ChangedFile['operation'], string>> = {
  create: 'created',
  update: 'changed',
  delete: 'deleted',
  none: 'created and deleted',
};
const tones = { create: 'done', update: 'working', delete: 'failed', none: 'ended' } as const;

function Operation({ file: { operation, changes } }: { readonly file: ChangedFile }) {
  return (
    <Badge tone={tones[operation]}>
      {words[operation]}
      {changes.length === 1 ? '' : ` ${changes.length}×`}
    </Badge>
  );
}
