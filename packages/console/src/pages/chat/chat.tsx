/** Conversations with agents. */
import { Plus } from 'lucide-react';
import { Link, useSearchParams } from 'wouter';
import { buttonClass } from '../../ui/button.tsx';
import { PageHeader, Split } from '../../ui/layout.tsx';
import { Conversation } from './conversation.tsx';
import { Conversations } from './conversations.tsx';
import { NewChat } from './new-chat.tsx';

/** `conversationId` is `new` for a conversation that has not begun. */
export function Chat({ conversationId }: { readonly conversationId: string | undefined }) {
  const [params] = useSearchParams();
  const q = params.get('q');
  const isNew = conversationId === 'new' || (conversationId === undefined && params.has('agent'));
  return (
    <>
      <PageHeader title="Chat">
        <Link href="/chat/new" className={buttonClass('primary')}>
          <Plus aria-hidden size={16} /> New chat
        </Link>
      </PageHeader>
      <Split
        back={q === null ? '/chat' : `/chat?q=${encodeURIComponent(q)}`}
        list={<Conversations open={conversationId} />}
        detail={
          isNew ? (
            <NewChat />
          ) : conversationId === undefined ? undefined : (
            <Conversation key={conversationId} id={conversationId} />
          )
        }
        placeholder={<NewChat />}
      />
    </>
  );
}
