/** Finds pages and actions by name. */
import { useState } from 'react';
import { useLocation } from 'wouter';
import { Input } from '../ui/form.tsx';
import { Dialog } from '../ui/overlay.tsx';
import { places } from './places.ts';

export function CommandPalette({ onClose }: { readonly onClose: () => void }) {
  const [text, setText] = useState('');
  const [, navigate] = useLocation();
  const found = places.filter(({ label }) => label.toLowerCase().includes(text.toLowerCase()));
  const go = (path: string) => {
    onClose();
    navigate(path);
  };
  return (
    <Dialog open onOpenChange={onClose} title="Go to">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (found[0] !== undefined) go(found[0].path);
        }}
      >
        <Input
          aria-label="Search"
          placeholder="A page"
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
      </form>
      <ul className="mt-2">
        {found.map(({ path, label }) => (
          <li key={path}>
            <button
              type="button"
              className="h-9 w-full rounded px-2 text-left text-sm hover:bg-hover"
              onClick={() => go(path)}
            >
              {label}
            </button>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
