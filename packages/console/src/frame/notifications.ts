/** Desktop notifications of new requests, for those who turned them on in the inbox. */
import { escapeMisleading } from '@relay/protocol/display';
import { useEffect } from 'react';
import { useLocation } from 'wouter';
import { approvals } from '../api/approvals.ts';
import { isFeedReader } from '../api/feed.ts';
import { requestText } from '../pages/inbox/words.ts';
import { usePreferences } from '../preferences.ts';

export function useNotifications(): void {
  const { notifications } = usePreferences();
  const [, navigate] = useLocation();
  useEffect(() => {
    if (!notifications || !('Notification' in globalThis)) return undefined;
    return approvals.onNew((approval) => {
      // One tab notifies for all, and not a person who is looking at it.
      if (!isFeedReader() || document.hasFocus() || Notification.permission !== 'granted') return;
      const { id, tool, kind } = approval;
      const asks = kind === 'question' ? 'asks a question' : 'waits for a decision';
      const notification = new Notification(escapeMisleading(`${tool} ${asks}`), {
        body: escapeMisleading(requestText(approval)),
        tag: id,
        silent: true,
      });
      notification.addEventListener('click', () => {
        window.focus();
        navigate(`/inbox/${id}`);
        notification.close();
      });
    });
  }, [notifications, navigate]);
}
