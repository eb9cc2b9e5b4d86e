import { PageHeader } from '../../ui/layout.tsx';

export function Chat({ conversationId }: { readonly conversationId: string | undefined }) {
  return <PageHeader title="Chat">{conversationId}</PageHeader>;
}
