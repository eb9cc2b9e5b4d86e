/** Sessions: the board, the page of one session, and channels. */
import { useSearchParams } from 'wouter';
import { Board } from './board/board.tsx';
import { Channels } from './messages/channels.tsx';
import { SessionPage } from './session/session-page.tsx';

export function Sessions({ id }: { readonly id: string | undefined }) {
  const [search] = useSearchParams();
  if (id !== undefined) return <SessionPage key={id} id={id} />;
  return search.get('view') === 'channels' ? <Channels /> : <Board />;
}
