/** Starts a session of an agent, a coding agent or another harness of the server. */
import { defined } from '@relay/protocol/wire';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import { useMay } from '../../../api/account.tsx';
import { useAgents, useModels } from '../../../api/catalog.ts';
import { client } from '../../../api/client.ts';
import { sessionChanged } from '../../../api/sessions.ts';
import { Field, Input, Select } from '../../../ui/form.tsx';
import { ErrorNotice } from '../../../ui/notice.tsx';
import { FormDialog } from '../../../ui/overlay.tsx';

const codingAgents = ['claude', 'codex', 'opencode', 'gemini'];
/** Its name is typed: only the operator's configuration has it. */
const otherHarness = 'other';
const handleForm = '[a-z0-9][a-z0-9._\\-]{0,63}';

interface StartSessionProps {
  readonly onClose: () => void;
  /** Of sessions that exist: the server does not list the harnesses that it has. */
  readonly harnesses: readonly string[];
}

export function StartSession({ onClose, harnesses }: StartSessionProps) {
  const [, navigate] = useLocation();
  const mayApprove = useMay('approve');
  const [chosen, setChosen] = useState('native');
  const [name, setName] = useState('');
  const [handle, setHandle] = useState('');
  const [title, setTitle] = useState('');
  const [agent, setAgent] = useState('');
  const [model, setModel] = useState<string>();
  const [workspace, setWorkspace] = useState('');
  const { data: agents = [] } = useAgents();
  const models = useModels().data?.models ?? [];
  const isNative = chosen === 'native';
  const named = agents.find((each) => (agent === '' ? each.isDefault : each.name === agent));
  // A server without a provider has the demo model alone, and no default.
  const chosenModel = model ?? (named?.model === undefined ? (models[0]?.id ?? '') : '');
  const start = useMutation({
    mutationFn: () =>
      client.sessions.create({
        harness: chosen === otherHarness ? name : chosen,
        handle,
        ...defined({
          agent: isNative && agent !== '' ? agent : undefined,
          model: isNative && chosenModel !== '' ? chosenModel : undefined,
          workspace: !isNative && workspace !== '' ? workspace : undefined,
          labels: title === '' ? undefined : { title },
        }),
      }),
    onSuccess: (session) => {
      sessionChanged(session);
      navigate(`/sessions/${session.id}`);
    },
  });
  const others = harnesses.filter(
    (each) => !['native', 'remote', 'human', ...codingAgents].includes(each),
  );
  const needsApprove = !isNative && !mayApprove;

  return (
    <FormDialog
      title="Start a session"
      action="Start"
      isDisabled={start.isPending || needsApprove}
      onSubmit={() => start.mutate()}
      onClose={onClose}
    >
      <Field
        label="What runs"
        hint={
          needsApprove
            ? 'What a program does without asking needs no approval: starting one needs the scope approve.'
            : isNative
              ? 'Each turn is a run of the agent.'
              : 'The program is installed on the machine of the server, and works in the workspace of the tenant.'
        }
      >
        {(ids) => (
          <Select {...ids} value={chosen} onChange={(event) => setChosen(event.target.value)}>
            <option value="native">An agent of this server</option>
            {codingAgents.map((each) => (
              <option key={each} value={each}>
                {each} (coding agent)
              </option>
            ))}
            {others.map((each) => (
              <option key={each}>{each}</option>
            ))}
            <option value={otherHarness}>Another harness …</option>
          </Select>
        )}
      </Field>
      {chosen === otherHarness ? (
        <Field label="Harness" hint="As the configuration of the server names it.">
          {(ids) => (
            <Input
              {...ids}
              required
              value={name}
              onChange={(event) => setName(event.target.value)}
            />
          )}
        </Field>
      ) : null}
      <Field label="Handle" hint="Messages are addressed to it. Lower-case letters and digits.">
        {(ids) => (
          <Input
            {...ids}
            required
            autoFocus
            pattern={handleForm}
            placeholder="builder"
            autoCapitalize="none"
            spellCheck={false}
            value={handle}
            onChange={(event) => setHandle(event.target.value.replace(/^@/, ''))}
          />
        )}
      </Field>
      <Field label="Title (optional)">
        {(ids) => (
          <Input
            {...ids}
            maxLength={128}
            value={title}
            onChange={(event) => setTitle(event.target.value)}
          />
        )}
      </Field>
      {isNative ? (
        <>
          <Field label="Agent">
            {(ids) => (
              <Select {...ids} value={agent} onChange={(event) => setAgent(event.target.value)}>
                {agents.map((each) => (
                  <option key={each.name} value={each.isDefault ? '' : each.name}>
                    {each.name}
                  </option>
                ))}
              </Select>
            )}
          </Field>
          <Field
            label="Model"
            hint={chosenModel === 'demo' ? 'The demo model needs no provider.' : undefined}
          >
            {(ids) => (
              <Select
                {...ids}
                value={chosenModel}
                onChange={(event) => setModel(event.target.value)}
              >
                <option value="">
                  The default{named?.model === undefined ? '' : `: ${named.model}`}
                </option>
                {models.map(({ id }) => (
                  <option key={id}>{id}</option>
                ))}
              </Select>
            )}
          </Field>
        </>
      ) : (
        <Field label="Folder (optional)" hint="Inside the workspace. Default: the whole workspace.">
          {(ids) => (
            <Input
              {...ids}
              value={workspace}
              onChange={(event) => setWorkspace(event.target.value)}
            />
          )}
        </Field>
      )}
      {start.error === null ? null : (
        <ErrorNotice title="The session could not be started" error={start.error} />
      )}
    </FormDialog>
  );
}
