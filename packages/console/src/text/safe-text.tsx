/** Text of models, tools and agents, with characters that hide or mislead made visible. */
import { escapeMisleading } from '@relay/protocol/display';
import { useState } from 'react';
import { Button } from '../ui/button.tsx';
import { formatCount } from '../ui/values.tsx';

interface SafeTextProps {
  readonly text: string;
  /** Longer text is folded, and says how long it is. Default: 4,000 characters. */
  readonly maxLength?: number;
}

export function SafeText({ text, maxLength = 4_000 }: SafeTextProps) {
  const [isOpen, setOpen] = useState(false);
  const isFolded = !isOpen && text.length > maxLength;
  const shown = escapeMisleading(isFolded ? text.slice(0, maxLength) : text);
  return (
    <>
      {shown}
      {isFolded ? (
        <Button size="sm" onClick={() => setOpen(true)}>
          Show all {formatCount(text.length)} characters
        </Button>
      ) : null}
    </>
  );
}
