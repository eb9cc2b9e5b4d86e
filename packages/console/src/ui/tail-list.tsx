/** A long list that is read at its end: it stays there while it grows, and older items are put above. */
import { ArrowDown } from 'lucide-react';
import { type ReactNode, useCallback, useEffect, useLayoutEffect, useRef, useState } from 'react';
import { VList, type VListHandle } from 'virtua';
import { Button } from './button.tsx';

interface TailListProps<Item> {
  readonly label: string;
  readonly items: readonly Item[];
  readonly keyOf: (item: Item) => string | number;
  readonly children: (item: Item) => ReactNode;
  /** Above the first item, such as a button that loads older ones. */
  readonly top?: ReactNode;
  /** Of the button that leads back to the end, while the reader is elsewhere. Left out: no button. */
  readonly endLabel?: string;
  /** When it changes, the end is shown, wherever the reader was. */
  readonly showEnd?: number;
}

/** This close to the end, in pixels, counts as being there. */
const tolerance = 40;

export function TailList<Item>(props: TailListProps<Item>) {
  const { label, items, keyOf, children, top, endLabel, showEnd } = props;
  const list = useRef<VListHandle>(null);
  const isAtEnd = useRef(true);
  const lastOffset = useRef(0);
  const [isAway, setAway] = useState(false);
  const first = items[0] === undefined ? undefined : keyOf(items[0]);
  const shownFirst = useRef(first);
  // Items were put above: what is visible must not move.
  const isShifted = first !== shownFirst.current && shownFirst.current !== undefined;
  useEffect(() => {
    shownFirst.current = first;
  }, [first]);
  const count = items.length;
  const toEnd = useCallback(() => list.current?.scrollToIndex(count, { align: 'end' }), [count]);
  const follow = useCallback(() => {
    if (isAtEnd.current) toEnd();
  }, [toEnd]);
  const shownEnd = useRef(showEnd);
  useLayoutEffect(() => {
    if (shownEnd.current !== showEnd) isAtEnd.current = true;
    shownEnd.current = showEnd;
    follow();
  }, [items, showEnd, follow]);
  return (
    <div className="relative h-full">
      <VList
        ref={list}
        role="log"
        aria-label={label}
        aria-live="off"
        tabIndex={0}
        shift={isShifted}
        className="h-full"
        // An item became taller, or the keyboard of a phone took a part of the screen.
        onResize={follow}
        onScroll={(offset) => {
          const { scrollSize = 0, viewportSize = 0 } = list.current ?? {};
          // Only the reader scrolls up. Otherwise the list has grown since it was scrolled to its end.
          const isUp = offset < lastOffset.current;
          lastOffset.current = offset;
          if (offset + viewportSize >= scrollSize - tolerance) isAtEnd.current = true;
          else if (isUp) isAtEnd.current = false;
          setAway(!isAtEnd.current);
        }}
      >
        <div>{top}</div>
        {items.map((item) => (
          <div key={keyOf(item)}>{children(item)}</div>
        ))}
      </VList>
      {isAway && endLabel !== undefined ? (
        <Button
          size="sm"
          className="absolute bottom-3 left-1/2 -translate-x-1/2 shadow-overlay"
          onClick={() => {
            isAtEnd.current = true;
            toEnd();
          }}
        >
          <ArrowDown aria-hidden size={14} /> {endLabel}
        </Button>
      ) : null}
    </div>
  );
}
