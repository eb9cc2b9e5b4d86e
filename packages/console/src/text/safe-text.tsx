/** Text of models, tools and agents, with characters that hide or mislead drawn as marks. */
import { memo, useState } from 'react';
import { Button } from '../ui/button.tsx';
import { formatCount } from '../ui/values.tsx';
import { cutAt, piecesOf } from './marks.ts';

interface SafeTextProps {
  readonly text: string;
  /** Longer text is folded, and says how long it is. Default: 4,000 characters. */
  readonly maxLength?: number;
}

/** How much more is shown at once: a browser lays out so many characters without a delay. */
const step = 100_000;

/** Only what is shown is looked at, so that the length of a text costs nothing. */
export function SafeText({ text, maxLength = 4_000 }: SafeTextProps) {
  const [steps, setSteps] = useState(0);
  // A little more than the limit is not worth a click.
  if (text.length <= maxLength * 1.1) return <Marked text={text} />;
  const shown: string[] = [];
  let end = 0;
  for (let at = 0; at <= steps && end < text.length; at += 1) {
    const start = end;
    end += cutAt(text.slice(start, start + step + 1), at === 0 ? maxLength : step);
    shown.push(text.slice(start, end));
  }
  const left = text.length - end;
  return (
    <>
      {shown.map((part, index) => (
        <Marked key={index} text={part} />
      ))}
      {left === 0 ? null : (
        <span className="mx-1 inline-flex flex-wrap items-center gap-1 align-middle font-sans text-xs whitespace-normal text-muted">
          … {left.toLocaleString()} of {text.length.toLocaleString()} characters are not shown
          <Button size="sm" onClick={() => setSteps(steps + 1)}>
            {left <= step ? 'Show the rest' : `Show the next ${step.toLocaleString()}`}
          </Button>
        </span>
      )}
    </>
  );
}

/** On a button or in a line of a list, where nothing can be unfolded. */
export function Shortened({ text, maxLength }: Required<SafeTextProps>) {
  if (text.length <= maxLength) return <Marked text={text} />;
  const left = text.length - maxLength;
  return (
    <>
      <Marked text={text.slice(0, cutAt(text, maxLength))} />… (+{left.toLocaleString()} characters)
    </>
  );
}

/** All of a text that is known to be short. */
export const Marked = memo(function Marked({ text }: { readonly text: string }) {
  return (
    <>
      {piecesOf(text).map((piece, index) =>
        typeof piece === 'string' ? (
          piece
        ) : (
          <span
            key={index}
            title={`${piece.label}: ${piece.about}`}
            className="mx-px inline-block rounded-sm border border-waiting bg-waiting-soft px-1 align-baseline font-mono text-[0.8em] leading-[1.3] whitespace-nowrap text-waiting [unicode-bidi:isolate]"
          >
            {piece.label}
            {piece.count > 1 ? ` ×${formatCount(piece.count)}` : ''}
          </span>
        ),
      )}
    </>
  );
});
