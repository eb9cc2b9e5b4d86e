/** What a session has declared that it can do. */
import type { Session } from '@relay/sdk';
import { Check, Minus } from 'lucide-react';
import type { ReactNode } from 'react';
import { Section } from '../../../ui/layout.tsx';
import { Id, Time } from '../../../ui/values.tsx';
import { Person } from '../../../api/people.tsx';
import { SafeText } from '../../../text/safe-text.tsx';
import { Link } from 'wouter';
import { modes, type Operation } from '../abilities.ts';

const operations: readonly {
  readonly operation: Exclude<Operation, 'cancel'>;
  readonly label: string;
}[] = [
  { operation: 'pause', label: 'Pause' },
  { operation: 'resume', label: 'Resume' },
  { operation: 'fork', label: 'Fork' },
  { operation: 'snapshot', label: 'Snapshot' },
  { operation: 'release', label: 'Release' },
];

export function Capabilities({ session }: { readonly session: Session }) {
  const { messaging, delivery, events, actions = {}, lifecycle } = session.capabilities;
  return (
    <div className="min-h-0 flex-1 overflow-y-auto">
      <div className="mx-auto grid max-w-[1100px] gap-4 p-4 md:grid-cols-2">
        <Section title="Session">
          <Facts session={session} />
        </Section>
        <Section title="Messages">
          <ul className="flex flex-col gap-1.5">
            <Ability is label="Receives messages" />
            <Ability is={messaging.send === true} label="Sends messages" />
            <Ability
              is={messaging.attachments?.includes('text') === true}
              label="Takes text attachments"
            />
            <Ability
              is={messaging.attachments?.includes('image') === true}
              label="Takes image attachments"
            />
            <Ability
              is={delivery.queue === true}
              label="Has a queue"
              about="A message that cannot be handed over at once waits."
            />
          </ul>
        </Section>
        <Section title="Delivery modes">
          <ul className="flex flex-col gap-1.5">
            {modes.map(({ mode, label, about }) => (
              <Ability
                key={mode}
                is={delivery.modes.includes(mode)}
                label={`${label} (${mode})`}
                about={about}
              />
            ))}
          </ul>
        </Section>
        <Section title="Operations">
          <ul className="flex flex-col gap-1.5">
            {operations.map(({ operation, label }) => (
              <Ability key={operation} is={lifecycle[operation] === true} label={label} />
            ))}
            <Ability is={actions.invoke === true} label="Invokes actions" />
            <Ability is={actions.expose === true} label="Exposes actions" />
          </ul>
        </Section>
        <Section title="Events that it reports">
          {events.emits.length === 0 ? (
            <p className="text-sm text-muted">None.</p>
          ) : (
            <ul className="flex flex-wrap gap-1">
              {events.emits.map((type) => (
                <li key={type} className="rounded-sm bg-sunken px-1.5 font-mono text-xs">
                  {type}
                </li>
              ))}
            </ul>
          )}
        </Section>
      </div>
    </div>
  );
}

interface AbilityProps {
  readonly is: boolean;
  readonly label: string;
  readonly about?: string;
}

function Ability({ is, label, about }: AbilityProps) {
  const Icon = is ? Check : Minus;
  return (
    <li className="flex items-start gap-2 text-sm">
      <Icon aria-hidden size={16} className={is ? 'mt-0.5 text-done' : 'mt-0.5 text-faint'} />
      <span className={is ? undefined : 'text-muted'}>
        {label}
        {is ? null : ': not declared'}
        {about === undefined ? null : <span className="block text-xs text-muted">{about}</span>}
      </span>
    </li>
  );
}

function Facts({ session }: { readonly session: Session }) {
  const { labels, parentSessionId, activeRunId, releasedAt } = session;
  return (
    <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-1 text-sm">
      <Fact name="Id">
        <Id id={session.id} label="session id" />
      </Fact>
      <Fact name="Harness">
        <SafeText text={session.harness} />
      </Fact>
      {session.agent === undefined ? null : (
        <Fact name="Agent">
          <SafeText text={session.agent} />
        </Fact>
      )}
      {session.model === undefined ? null : (
        <Fact name="Model">
          <SafeText text={session.model} />
        </Fact>
      )}
      {session.workspace === undefined ? null : (
        <Fact name="Folder">
          <SafeText text={session.workspace} />
        </Fact>
      )}
      <Fact name="Owner">
        <Person id={session.owner} />
      </Fact>
      <Fact name="Created">
        <Time at={session.createdAt} />
      </Fact>
      {releasedAt === undefined ? null : (
        <Fact name="Ended">
          <Time at={releasedAt} />
        </Fact>
      )}
      <Fact name="Conversation">
        <Id id={session.conversationId} label="conversation id" />
      </Fact>
      {activeRunId === undefined ? null : (
        <Fact name="Current turn">
          <Link href={`/runs/${activeRunId}`} className="underline">
            Open the run
          </Link>
        </Fact>
      )}
      {parentSessionId === undefined ? null : (
        <Fact name="Continues">
          <Link href={`/sessions/${parentSessionId}`} className="underline">
            Another session
          </Link>
        </Fact>
      )}
      {Object.entries(labels).map(([name, value]) => (
        <Fact key={name} name={name}>
          <SafeText text={value} />
        </Fact>
      ))}
    </dl>
  );
}

function Fact({ name, children }: { readonly name: string; readonly children: ReactNode }) {
  return (
    <>
      <dt className="text-muted">
        <SafeText text={name} />
      </dt>
      <dd className="min-w-0 break-words">{children}</dd>
    </>
  );
}
