/**
 * Approves a call with other arguments: a form that keeps their types, what changes, and what the rules say
 * about the changed call. It is checked once more before it is sent.
 */
import { escapeMisleading } from '@relay/protocol/display';
import {
  type Approval,
  type Explanation,
  type FieldIssue,
  isObject,
  type JsonSchema,
} from '@relay/protocol/wire';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { client } from '../../api/client.ts';
import { ArgumentsDiff } from '../../call/arguments-diff.tsx';
import { changesBetween } from '../../call/changes.ts';
import { SchemaForm } from '../../call/schema-form.tsx';
import { SafeText } from '../../text/safe-text.tsx';
import { Button } from '../../ui/button.tsx';
import { ErrorNotice, Loading } from '../../ui/notice.tsx';
import { Dialog } from '../../ui/overlay.tsx';
import { decide, type JsonInput, useDecision } from './decisions.ts';
import { Refusal } from './refusal.tsx';
import { shownParams } from './words.ts';

interface EditProps {
  readonly approval: Approval;
  readonly digest: string;
  readonly onClose: () => void;
}

type Arguments = Record<string, JsonInput>;

/** The rules are asked when the person pauses. */
const pauseMs = 300;

export function Edit({ approval, digest, onClose }: EditProps) {
  const { id, tool } = approval;
  const before = shownParams(approval);
  const schema = useSchema(approval);
  const [value, setValue] = useState<unknown>(before);
  const [issues, setIssues] = useState<readonly FieldIssue[]>([]);
  const [refused, setRefused] = useState<Explanation>();
  const [error, setError] = useState<unknown>();
  const [isChecking, setChecking] = useState(false);
  const [isLeaving, setLeaving] = useState(false);
  const keepEditing = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (isLeaving) keepEditing.current?.focus();
  }, [isLeaving]);
  const isSending = useDecision(id)?.status === 'sending';
  const isChanged = changesBetween(before, value).length > 0;
  const isReady = issues.length === 0 && isChanged && isObject(value);
  const check = useCheck(approval, isReady ? (value as Arguments) : undefined);
  const shown = refused ?? check.data;

  const send = async () => {
    const input = value as Arguments;
    setChecking(true);
    setError(undefined);
    try {
      const explanation = await explain(approval, input);
      if (isRefused(explanation)) return setRefused(explanation);
    } catch (thrown) {
      return setError(thrown);
    } finally {
      setChecking(false);
    }
    if (await decide(id, 'Approving', { approved: true, input, digest })) onClose();
    return undefined;
  };

  return (
    <Dialog
      open
      // A key or a click beside it is easily pressed by mistake.
      onOpenChange={(_, reason) =>
        isChanged && (reason === 'escape-key' || reason === 'outside-press')
          ? setLeaving(true)
          : onClose()
      }
      title={`Edit the call of ${escapeMisleading(tool)}`}
      width="lg"
      footer={
        isLeaving ? (
          <>
            <p role="alert" className="mr-auto self-center text-sm">
              Discard your changes?
            </p>
            <Button ref={keepEditing} onClick={() => setLeaving(false)}>
              Keep editing
            </Button>
            <Button kind="danger" onClick={onClose}>
              Discard
            </Button>
          </>
        ) : (
          <>
            <Button onClick={onClose}>Cancel</Button>
            <Button
              kind="approve"
              disabled={
                !isReady || isChecking || isSending || (shown !== undefined && isRefused(shown))
              }
              onClick={() => void send()}
            >
              {isSending ? 'Approving …' : isChecking ? 'Checking …' : 'Approve with changes'}
            </Button>
          </>
        )
      }
    >
      <div className="grid gap-6 md:grid-cols-2">
        <div className="min-w-0">
          {schema === undefined ? (
            <Loading />
          ) : (
            <SchemaForm
              schema={schema}
              value={value}
              problems={shown?.problems ?? []}
              onChange={(next, found) => {
                setValue(next);
                setIssues(found);
                setRefused(undefined);
              }}
            />
          )}
        </div>
        <section aria-label="What changes" className="flex min-w-0 flex-col gap-3">
          <h3 className="text-sm font-medium">What changes</h3>
          <ArgumentsDiff before={before} after={value} />
          <h3 className="text-sm font-medium">What the rules say</h3>
          <div role="status" className="text-sm break-words">
            <Check
              isReady={isReady}
              isChanged={isChanged}
              explanation={shown}
              error={check.error}
            />
          </div>
        </section>
      </div>
      {error === undefined ? null : (
        <ErrorNotice title="The changed call could not be checked" error={error} />
      )}
      <Refusal id={id} />
    </Dialog>
  );
}

interface CheckProps {
  readonly isReady: boolean;
  readonly isChanged: boolean;
  readonly explanation: Explanation | undefined;
  readonly error: unknown;
}

function Check({ isReady, isChanged, explanation, error }: CheckProps) {
  if (!isChanged) return <span className="text-muted">Change an argument first.</span>;
  if (!isReady) return <span className="text-muted">The arguments are not complete yet.</span>;
  if (error !== null) return <span className="text-muted">They could not be asked.</span>;
  if (explanation === undefined) return <span className="text-muted">…</span>;
  if (explanation.decision === 'deny') {
    return (
      <span className="text-failed">
        The changed call is denied: <SafeText text={explanation.reason} />
      </span>
    );
  }
  if (isRefused(explanation)) {
    return <span className="text-failed">The tool would refuse these arguments.</span>;
  }
  return <span>Your approval lets the changed call run.</span>;
}

function isRefused({ decision, problems = [] }: Explanation): boolean {
  return decision === 'deny' || problems.length > 0;
}

function explain({ id, tool }: Approval, params: Arguments, signal?: AbortSignal) {
  const body = { tool, params, approvalId: id };
  return client.permissions.explain(body, signal === undefined ? {} : { signal });
}

/** What the rules say about arguments, once they have not changed for a moment. */
function useCheck(approval: Approval, value: Arguments | undefined) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), pauseMs);
    return () => clearTimeout(timer);
  }, [value]);
  return useQuery({
    queryKey: ['explain', approval.id, settled],
    queryFn: ({ signal }) => explain(approval, settled ?? {}, signal),
    enabled: settled !== undefined,
    placeholderData: keepPreviousData,
  });
}

/** The schema of the tool: that of the server, or of the function tool that the run has brought along. */
function useSchema({ tool, runId }: Approval): JsonSchema | undefined {
  const { data, isError } = useQuery({
    queryKey: ['tool-schema', tool, runId],
    queryFn: async ({ signal }): Promise<JsonSchema> => {
      const { tools } = await client.tools({ signal });
      const known = tools.find(({ name }) => name === tool);
      if (known !== undefined) return known.inputSchema;
      if (runId === undefined) return {};
      const { items } = await client.runs.events(runId, { limit: 1 }, { signal }).page();
      const [created] = items;
      const functions = created?.type === 'run.created' ? (created.functions ?? []) : [];
      return functions.find(({ name }) => name === tool)?.inputSchema ?? {};
    },
  });
  // Without a schema the arguments are edited as JSON; the server checks them.
  return isError ? {} : data;
}
