/** Handles hints from other nodes, and about sessions also from this one. A hint only says where to look; this node reads the store itself. */
import type { Hint } from '@relay/core';
import { defined } from '@relay/protocol';
import type { ServerContext } from '../http/handlers/handler.ts';

export function subscribeToNodes(context: ServerContext): () => void {
  return context.store.listen((hint) => handle(context, hint));
}

function handle(context: ServerContext, hint: Hint): void {
  const { hub, sessionHub, programHub, feed, control, budgets, streams, vault } = context;
  const { supervisor } = control;
  switch (hint.kind) {
    case 'journal':
      hub.publish(hint.runId, []);
      return;
    case 'run':
      hub.publish(hint.runId, []);
      feed.add(hint.tenantId, { kind: 'run', id: hint.runId });
      return;
    case 'approval':
      feed.add(hint.tenantId, { kind: 'approval', id: hint.approvalId });
      return;
    case 'session':
      sessionHub.publish(hint.sessionId, []);
      programHub.publish(hint.sessionId, []);
      feed.add(hint.tenantId, { kind: 'session', id: hint.sessionId });
      if (hint.isTokenEnded === true) void streams.checkSession(hint.sessionId);
      return;
    case 'message': {
      const { messageId: id, channels } = hint;
      feed.add(hint.tenantId, { kind: 'message', id, ...defined({ channels }) });
      return;
    }
    case 'delivery': {
      const { deliveryId: id, sessionId } = hint;
      feed.add(hint.tenantId, { kind: 'delivery', ...defined({ id }), sessionId });
      return;
    }
    case 'inbox':
      supervisor.notify(hint);
      return;
    case 'wake':
      supervisor.wake(hint);
      return;
    case 'tenant':
      budgets.invalidate(hint.tenantId);
      vault.changed(hint.tenantId);
      break;
    case 'all':
      hub.invalidate();
      sessionHub.invalidate();
      programHub.invalidate();
      feed.addToAll({ kind: 'all' });
      vault.changed();
      streams.checkSessions();
      break;
  }
  // A failure is harmless: the supervisor scans again within a second.
  supervisor.refreshPausedTenants().catch(() => undefined);
  void streams.checkKeys();
}
