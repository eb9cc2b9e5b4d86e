import { ShortcutsHelp } from '../../frame/shortcuts-help.tsx';

const shortcuts = [
  ['J', 'Next request'],
  ['K', 'Previous request'],
  ['Enter', 'Go into the open request'],
  ['A', 'Approve once'],
  ['E', 'Edit and approve'],
  ['D', 'Deny, with a reason'],
  ['X', 'Choose, to decide identical calls together'],
] as const;

export function Help({ onClose }: { readonly onClose: () => void }) {
  return (
    <ShortcutsHelp shortcuts={shortcuts} onClose={onClose}>
      They decide about the request in the open card.
    </ShortcutsHelp>
  );
}
