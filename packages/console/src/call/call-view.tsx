/** A tool call exactly as it will run: every parameter, readable, with what it leads to. */
import { describeFlags, displayParts, escapeMisleading } from '@relay/protocol/display';
import { type ExplainedParameter, isObject } from '@relay/protocol/wire';
import { ArrowRight, TriangleAlert } from 'lucide-react';
import { type ReactNode, useMemo } from 'react';
import { Diff, DiffOf } from '../text/diff.tsx';
import { Json, Scalar } from '../text/json.tsx';
import { Address, targetOf } from '../text/link-text.tsx';
import { SafeText } from '../text/safe-text.tsx';
import { formatCount } from '../ui/values.tsx';
import { Command } from './command.tsx';

interface Link {
  readonly name: string;
  readonly path: string;
  readonly target: string;
}

interface ExecutionProps {
  readonly folder: string;
  readonly sandboxed: boolean;
}

interface CallViewProps {
  readonly tool: string;
  readonly params: unknown;
  /** What the call would change, and the paths in it that lead elsewhere. */
  readonly preview?:
    | {
        readonly links?: readonly Link[] | undefined;
        readonly diff?: string | undefined;
        readonly execution?: ExecutionProps | undefined;
      }
    | undefined;
  /** Keyed by parameter. */
  readonly resolvedPaths?: Readonly<Record<string, string>> | undefined;
  /** From `POST /v1/permissions/explain`. */
  readonly parameters?: Readonly<Record<string, ExplainedParameter>> | undefined;
  /** Of the request's `display`. */
  readonly flags?: readonly string[] | undefined;
}

const noFlags: readonly string[] = [];

export function CallView(props: CallViewProps) {
  const { tool, params, preview, resolvedPaths = {}, parameters = {}, flags = noFlags } = props;
  const { links = [], diff, execution } = preview ?? {};
  // Which words look like others.
  const notes = useMemo(
    () =>
      flags.includes('mixed-scripts') || flags.includes('confusable')
        ? displayParts({ tool, params }).notes
        : [],
    [flags, tool, params],
  );
  const warnings = [...describeFlags(flags).map((flag) => `The request ${flag}`), ...notes];
  const names = isObject(params) ? Object.keys(params) : [];
  return (
    <div
      role="group"
      aria-label={`Call of ${escapeMisleading(tool)}`}
      className="flex min-w-0 flex-col gap-3"
    >
      {warnings.length === 0 ? null : (
        <ul className="flex flex-col gap-1">
          {warnings.map((warning) => (
            <li key={warning}>
              <Warning>{warning}</Warning>
            </li>
          ))}
        </ul>
      )}
      {diff === undefined ? null : <Diff text={diff} />}
      {isObject(params) ? (
        <dl className="flex min-w-0 flex-col gap-3">
          {Object.entries(params).map(([name, value]) => (
            <div key={name} className="flex min-w-0 flex-col gap-1">
              <dt className="font-mono text-xs text-muted">
                <SafeText text={name === '' ? '""' : name} maxLength={200} />
              </dt>
              <dd className="flex min-w-0 flex-col gap-1">
                <Parameter
                  name={name}
                  value={value}
                  explained={Object.hasOwn(parameters, name) ? parameters[name] : undefined}
                  resolved={Object.hasOwn(resolvedPaths, name) ? resolvedPaths[name] : undefined}
                  isPreviewed={diff !== undefined}
                />
                <Links links={links.filter((link) => link.name === name)} />
              </dd>
            </div>
          ))}
          {names.length === 0 ? <div className="text-sm text-muted">Without parameters</div> : null}
        </dl>
      ) : (
        <Json value={params} />
      )}
      <Links links={links.filter(({ name }) => !names.includes(name))} />
      {execution === undefined ? null : <Execution {...execution} />}
    </div>
  );
}

/** Where a command runs that is approved. */
function Execution({ folder, sandboxed }: ExecutionProps) {
  return (
    <div className="flex min-w-0 flex-col gap-1 text-sm">
      <p className="min-w-0 break-words">
        <span className="text-muted">Runs in</span>{' '}
        <span dir="ltr" className="font-mono">
          <PathText path={folder} />
        </span>
        {sandboxed ? <span className="text-muted">, in the sandbox</span> : null}
      </p>
      {sandboxed ? null : (
        <Warning>Outside the sandbox: it may do whatever the account of the server may do</Warning>
      )}
    </div>
  );
}

function Warning({ children }: { readonly children: ReactNode }) {
  return (
    <span className="flex items-start gap-1.5 text-sm text-waiting">
      <TriangleAlert aria-hidden size={14} className="mt-0.5 shrink-0" />
      <span className="min-w-0">{children}</span>
    </span>
  );
}

/** Paths in the text of a parameter, with the files that they lead to. */
function Links({ links }: { readonly links: readonly Link[] }) {
  if (links.length === 0) return null;
  return (
    <ul className="flex flex-col gap-1 font-mono text-xs">
      {links.map(({ path, target }, index) => (
        <li key={index} className="min-w-0 break-words">
          <SafeText text={path} maxLength={500} /> <Arrow />{' '}
          <strong className="font-semibold">
            <SafeText text={target} maxLength={500} />
          </strong>
        </li>
      ))}
    </ul>
  );
}

function Arrow() {
  return <ArrowRight role="img" aria-label="leads to" size={12} className="inline text-muted" />;
}

interface ParameterProps {
  readonly name: string;
  readonly value: unknown;
  readonly explained: ExplainedParameter | undefined;
  readonly resolved: string | undefined;
  /** What the call changes is shown already. */
  readonly isPreviewed: boolean;
}

function Parameter({ name, value, explained, resolved, isPreviewed }: ParameterProps) {
  if (typeof value !== 'string') {
    const edits = isPreviewed ? undefined : editsOf(value);
    return edits === undefined ? (
      <Json value={value} collapsed={isPreviewed} />
    ) : (
      <Edits edits={edits} />
    );
  }
  // What was explained must be what is shown.
  if (explained?.kind === 'command' && isSame(explained, value)) return <Command {...explained} />;
  if (explained?.kind === 'url' && explained.url === value) return <Url {...explained} />;
  const target = (explained?.kind === 'path' ? explained.resolved : undefined) ?? resolved;
  if (target !== undefined) {
    const isOutside = explained?.kind === 'path' && explained.outside === true;
    return <Path path={value} target={target} isOutside={isOutside} />;
  }
  if (/^(?:diff |--- |@@ )/.test(value) && !isPreviewed) return <Diff text={value} isClaim />;
  if (targetOf(value) !== undefined) return <Url url={value} credentials={false} understood />;
  return <Text text={value} isCommand={name === 'command'} />;
}

function isSame({ segments }: { segments: readonly { text: string }[] }, value: string): boolean {
  return segments.map(({ text }) => text).join('') === value;
}

/** Short text in quotes, so that `"5"` is not taken for a number; long text as a block with its length. */
function Text({ text, isCommand }: { readonly text: string; readonly isCommand: boolean }) {
  if (!isCommand && text.length <= 200 && !text.includes('\n')) {
    return (
      <div dir="ltr" className="min-w-0 font-mono text-sm">
        <Scalar value={text} />
      </div>
    );
  }
  const lineCount = text.split('\n', 10_000).length;
  return (
    <div className="min-w-0 rounded border border-line bg-sunken">
      <pre
        dir="ltr"
        tabIndex={0}
        className="max-h-[50vh] overflow-auto px-3 py-2 font-mono text-sm break-words whitespace-pre-wrap"
      >
        <SafeText text={text} maxLength={2_000} />
      </pre>
      {text.length > 500 ? (
        <div className="border-t border-line px-3 py-1 text-xs text-muted">
          {formatCount(text.length)} characters, {formatCount(lineCount)}{' '}
          {lineCount === 1 ? 'line' : 'lines'}
        </div>
      ) : null}
    </div>
  );
}

/** In quotes if it could be read as something else, or ends with a space. */
function PathText({ path }: { readonly path: string }) {
  const isPlain = /^[\p{L}\p{M}\p{N}._\/@+~\-]+$/v.test(path);
  return isPlain ? <SafeText text={path} maxLength={500} /> : <Scalar value={path} />;
}

interface PathProps {
  readonly path: string;
  readonly target: string;
  readonly isOutside: boolean;
}

function Path({ path, target, isOutside }: PathProps) {
  return (
    <div className="flex min-w-0 flex-col gap-1">
      <div dir="ltr" className="min-w-0 font-mono text-sm break-words">
        <PathText path={path} />
        {target === path ? null : (
          <>
            {' '}
            <Arrow />{' '}
            <strong className="font-semibold">
              <PathText path={target} />
            </strong>
          </>
        )}
      </div>
      {isOutside ? <Warning>This path is outside of the workspace</Warning> : null}
    </div>
  );
}

interface UrlProps {
  readonly url: string;
  readonly credentials: boolean;
  readonly understood: boolean;
}

function Url({ url, credentials, understood }: UrlProps) {
  const href = understood ? targetOf(url)?.href : undefined;
  // What is sent is shown; a browser would write some addresses differently.
  const isNormal = href === url || href === `${url}/`;
  return (
    <div className="flex min-w-0 flex-col gap-1">
      <div dir="ltr" className="min-w-0 font-mono text-sm break-all">
        {isNormal ? <Address url={url} /> : <SafeText text={url} maxLength={2_000} />}
        {href === undefined || isNormal ? null : (
          <>
            {' '}
            <Arrow /> <Address url={href} />
          </>
        )}
      </div>
      {credentials ? <Warning>A user name or a password is part of this address</Warning> : null}
      {understood ? null : <Warning>Programs may disagree about where this address leads</Warning>}
    </div>
  );
}

interface Edit {
  readonly before: string;
  readonly after: string;
  /** What else an edit says. */
  readonly rest: Readonly<Record<string, unknown>>;
}

/** How tools name the text that is replaced and its replacement. */
const editNames = [
  ['old', 'new'],
  ['oldText', 'newText'],
  ['old_string', 'new_string'],
] as const;

/** A list of replacements; undefined if it is anything else. */
function editsOf(value: unknown): Edit[] | undefined {
  if (!Array.isArray(value) || value.length === 0 || value.length > 100) return undefined;
  const edits = value.map(editOf);
  return edits.every((edit) => edit !== undefined) ? edits : undefined;
}

function editOf(value: unknown): Edit | undefined {
  if (!isObject(value)) return undefined;
  for (const [oldName, newName] of editNames) {
    const { [oldName]: before, [newName]: after, ...rest } = value;
    if (typeof before === 'string' && typeof after === 'string') return { before, after, rest };
  }
  return undefined;
}

function Edits({ edits }: { readonly edits: readonly Edit[] }) {
  return (
    <ol className="flex min-w-0 flex-col gap-2">
      {edits.map(({ before, after, rest }, index) => (
        <li key={index} className="flex min-w-0 flex-col gap-1">
          <DiffOf before={before} after={after} />
          {Object.keys(rest).length === 0 ? null : <Json value={rest} />}
        </li>
      ))}
    </ol>
  );
}
