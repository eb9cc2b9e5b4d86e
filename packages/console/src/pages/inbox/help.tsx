/** The shortcuts of the inbox. */
import { Link } from 'wouter';
import { Kbd } from '../../ui/layout.tsx';
import { Dialog } from '../../ui/overlay.tsx';

const shortcuts = [
  ['J', 'Next request'],
  ['K', 'Previous request'],
  ['Enter', 'Go into the open request'],
  ['A', 'Approve once'],
  ['E', 'Edit and approve'],
  ['D', 'Deny, with a reason'],
  ['X', 'Choose, to decide identical calls together'],
  ['?', 'This help'],
] as const;

export function Help({ onClose }: { readonly onClose: () => void }) {
  return (
    <Dialog open onOpenChange={onClose} title="Shortcuts" width="sm">
      <dl className="flex flex-col gap-2 text-sm">
        {shortcuts.map(([key, text]) => (
          <div key={key} className="flex items-center justify-between gap-4">
            <dt>{text}</dt>
            <dd>
              <Kbd>{key}</Kbd>
            </dd>
          </div>
        ))}
      </dl>
      <p className="mt-4 text-xs text-muted">
        They decide about the request in the open card. Single keys can be turned off in{' '}
        <Link href="/settings" className="underline">
          Settings
        </Link>
        .
      </p>
    </Dialog>
  );
}
