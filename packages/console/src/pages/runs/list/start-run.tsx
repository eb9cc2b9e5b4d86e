import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import { useAgents, useModels } from '../../../api/catalog.ts';
import { client } from '../../../api/client.ts';
import { Button } from '../../../ui/button.tsx';
import { Field, Select, TextArea } from '../../../ui/form.tsx';
import { errorText } from '../../../ui/notice.tsx';
import { Dialog } from '../../../ui/overlay.tsx';

/** Starts a run with all tools of the agent, and shows it. */
export function StartRun({ onClose }: { readonly onClose: () => void }) {
  const [, navigate] = useLocation();
  const [agent, setAgent] = useState('');
  const [model, setModel] = useState<string>();
  const [message, setMessage] = useState('');
  const agents = useAgents();
  const models = useModels();
  const start = useMutation({
    mutationFn: () =>
      client.runs.sendMessage({
        message,
        ...(agent === '' ? {} : { agent }),
        ...(chosen === '' ? {} : { model: chosen }),
      }),
    onSuccess: ({ id }) => navigate(`/runs/${id}`),
  });
  const ids = models.data?.models.map(({ id }) => id) ?? [];
  const chosenAgent = agents.data?.find(({ name }) => name === agent);
  const own = chosenAgent?.model;
  // An agent with a model of its own uses it; else the demo model works without a key.
  const chosen = model ?? (own === undefined && ids.includes('demo') ? 'demo' : '');
  const isDemo = chosen === 'demo';
  return (
    <Dialog
      open
      onOpenChange={onClose}
      title="Start a run"
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            kind="primary"
            disabled={message.trim() === '' || start.isPending}
            onClick={() => start.mutate()}
          >
            Start
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-3">
        <Field
          label="Input"
          hint={
            isDemo
              ? 'The demo model understands: notify hello · calculate 23*47 · say 400 · use <tool> <json>'
              : 'What the agent should do.'
          }
        >
          {(ids) => (
            <TextArea
              {...ids}
              rows={5}
              autoFocus
              value={message}
              onChange={({ target }) => setMessage(target.value)}
            />
          )}
        </Field>
        <div className="grid gap-3 sm:grid-cols-2">
          <Field label="Agent">
            {(ids) => (
              <Select {...ids} value={agent} onChange={({ target }) => setAgent(target.value)}>
                <option value="">Default</option>
                {agents.data?.map(({ name }) => (
                  <option key={name} value={name}>
                    {name}
                  </option>
                ))}
              </Select>
            )}
          </Field>
          <Field label="Model">
            {(names) => (
              <Select {...names} value={chosen} onChange={({ target }) => setModel(target.value)}>
                <option value="">{own === undefined ? 'Default' : `Of the agent (${own})`}</option>
                {ids.map((id) => (
                  <option key={id} value={id}>
                    {id}
                  </option>
                ))}
              </Select>
            )}
          </Field>
        </div>
        {start.error === null ? null : (
          <p role="alert" className="text-sm whitespace-pre-line text-failed">
            {errorText(start.error)}
          </p>
        )}
      </div>
    </Dialog>
  );
}
