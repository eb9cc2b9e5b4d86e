/**
 * Where the reader of a run is: the cursor, at which the transcript is shown as it was, and the selected
 * event. Both are in the address, which follows a moment later: browsers limit how often it may change.
 */
import { useEffect, useRef, useState } from 'react';
import { useSearchParams } from 'wouter';

export interface Position {
  /** Undefined: the end, which moves while the run goes on. */
  readonly seq: number | undefined;
  /** Undefined: the event at the cursor. */
  readonly event: number | undefined;
}

const writeMs = 200;

type Move = (next: Position | ((before: Position) => Position)) => void;

export function usePosition(): readonly [Position, Move] {
  const [params, setParams] = useSearchParams();
  const address = positionOf(params);
  const [position, setPosition] = useState(address);
  /** The last position that was read from the address or written to it. */
  const known = useRef(address);
  const isMoved = !isSame(address, known.current);
  // The address has changed from outside: a link, or the buttons of the browser.
  useEffect(() => {
    if (!isMoved) return;
    known.current = address;
    setPosition(address);
  }, [isMoved, address]);
  useEffect(() => {
    if (isSame(position, known.current)) return undefined;
    const timer = setTimeout(() => {
      known.current = position;
      setParams(
        (current) => {
          const next = new URLSearchParams(current);
          for (const name of ['seq', 'event'] as const) {
            const value = position[name];
            if (value === undefined) next.delete(name);
            else next.set(name, String(value));
          }
          return next;
        },
        { replace: true },
      );
    }, writeMs);
    return () => clearTimeout(timer);
  }, [position, setParams]);
  return [position, setPosition];
}

function positionOf(params: URLSearchParams): Position {
  return { seq: seqOf(params.get('seq')), event: seqOf(params.get('event')) };
}

function seqOf(text: string | null): number | undefined {
  return text !== null && /^[1-9]\d{0,14}$/.test(text) ? Number(text) : undefined;
}

function isSame(one: Position, other: Position): boolean {
  return one.seq === other.seq && one.event === other.event;
}
