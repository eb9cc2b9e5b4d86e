/** The beginning of a conversation. Its examples work with the demo model, without a key. */
import type { MessageContent } from '@relay/protocol/wire';
import { uuid } from '@relay/sdk';
import { Calculator, Hand, MessageSquareText } from 'lucide-react';
import { Link, useLocation, useSearchParams } from 'wouter';
import { useMay } from '../../api/account.tsx';
import { SafeText } from '../../text/safe-text.tsx';
import { type Choice, isDemoOnly } from './choice.ts';
import { Composer } from './composer.tsx';
import { useAgents, useModels } from '../../api/catalog.ts';
import { sendMessage } from './outbox.ts';

const examples = [
  { text: 'calculate 23*47', about: 'Uses a tool that needs no approval', icon: Calculator },
  { text: 'notify hello', about: 'Wants to send a note, and asks you first', icon: Hand },
  {
    text: 'say 400',
    about: 'A long answer, streamed token by token',
    icon: MessageSquareText,
  },
] as const;

export function NewChat() {
  const [, navigate] = useLocation();
  const [params] = useSearchParams();
  const mayRun = useMay('runs');
  const { data: agents } = useAgents();
  const { data: models } = useModels();
  const agent = params.get('agent') ?? undefined;
  const choice: Choice = { agent, model: params.get('model') ?? undefined };
  const about = agents?.find(({ name, isDefault }) =>
    agent === undefined ? isDefault : name === agent,
  );
  const send = (content: MessageContent, chosen: Choice) => {
    // The page has its address before the server has answered.
    const conversationId = uuid();
    void sendMessage({ conversationId, content, ...chosen }, new Set());
    navigate(`/chat/${conversationId}`);
  };
  const isUnknown = agents !== undefined && agent !== undefined && about === undefined;
  if (!mayRun) {
    return (
      <p className="m-auto max-w-md p-6 text-center text-sm text-muted">
        You can read conversations, but not start one: your key does not have the scope runs.
      </p>
    );
  }
  return (
    <>
      <div className="min-h-0 flex-1 overflow-y-auto">
        <div className="mx-auto flex min-h-full w-full max-w-[620px] flex-col justify-center gap-4 p-4">
          <div>
            <h2 className="text-xl font-semibold">
              {about === undefined ? (
                'New chat'
              ) : (
                <>
                  Chat with <SafeText text={about.name} maxLength={200} />
                </>
              )}
            </h2>
            <p className="mt-1 text-sm text-muted">
              {isUnknown ? (
                <span className="text-failed">
                  There is no agent named <SafeText text={agent} maxLength={200} />. The default
                  agent answers.
                </span>
              ) : (
                <>
                  {about?.description === undefined ? null : (
                    <>
                      <SafeText text={about.description} maxLength={400} />{' '}
                    </>
                  )}
                  Answers are stored as they are written: close the page, and nothing is lost. A
                  tool that no rule allows asks you first.
                </>
              )}
            </p>
          </div>
          <ul className="flex flex-col gap-2">
            {examples.map(({ text, about: description, icon: Icon }) => (
              <li key={text}>
                <button
                  type="button"
                  className="flex w-full items-center gap-3 rounded border border-line bg-surface px-3 py-2.5 text-left hover:bg-hover pointer-coarse:min-h-11"
                  onClick={() => send(text, { agent: about?.name, model: 'demo' })}
                >
                  <Icon aria-hidden size={16} className="shrink-0 text-muted" />
                  <span className="min-w-0">
                    <code className="block font-mono text-sm font-medium">{text}</code>
                    <span className="block text-xs text-muted">{description}</span>
                  </span>
                </button>
              </li>
            ))}
          </ul>
          <p className="min-h-5 text-xs text-muted">
            {models === undefined || !isDemoOnly(models) ? (
              'The examples use the model demo, which costs nothing.'
            ) : (
              <>
                No model provider has a key, so only the model{' '}
                <code className="font-mono">demo</code> is available, which follows simple commands.{' '}
                <Link href="/settings/credentials" className="text-working underline">
                  Add a provider key
                </Link>
              </>
            )}
          </p>
        </div>
      </div>
      <Composer key={agent} draftKey="new" choice={choice} onSend={send} isFocused />
    </>
  );
}
