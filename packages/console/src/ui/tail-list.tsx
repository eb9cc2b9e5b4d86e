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
  const [isAway, setAway] = useState(false);
  const first = items[0] === undefined ? undefined : keyOf(items[0]);
  const shownFirst = useRef(first);
  // Items were put above: what is visible must not move.
  const isShifted = first !== shownFirst.current && shownFirst.current !== undefined;
  useEffect(() => {
    shownFirst.current = first;
  }, [first]);
  const place = useRef<HTMLDivElement>(null);
  const lastOffset = useRef(0);
  /** The browser has scrolled back, because there is less to show: text was discarded. */
  const hasShrunk = useRef(false);
  /** The last item; `top` is the first. */
  const last = useRef(0);
  last.current = items.length;
  const toEnd = useCallback(() => {
    isAtEnd.current = true;
    list.current?.scrollToIndex(last.current, { align: 'end' });
  }, []);
  useEffect(() => {
    // Items change their height when they are measured, opened, or have loaded what they show.
    const content = place.current?.firstElementChild?.firstElementChild;
    if (content === null || content === undefined) return undefined;
    let height = 0;
    const resizes = new ResizeObserver(() => {
      if (content.clientHeight < height) hasShrunk.current = true;
      height = content.clientHeight;
      if (isAtEnd.current) toEnd();
    });
    resizes.observe(content);
    resizes.observe(content.parentElement ?? content);
    return () => resizes.disconnect();
  }, [toEnd]);
  useEffect(toEnd, [toEnd, showEnd]);
  useLayoutEffect(() => {
    if (isAtEnd.current) toEnd();
  }, [items, toEnd]);
  return (
    <div ref={place} className="relative h-full">
      <VList
        ref={list}
        role="log"
        aria-label={label}
        aria-live="off"
        tabIndex={0}
        shift={isShifted}
        className="h-full"
        onScroll={(offset) => {
          const { scrollSize = 0, viewportSize = 0 } = list.current ?? {};
          const isThere = offset + viewportSize >= scrollSize - tolerance;
          // Only a person scrolls back; that the end has moved away is no reason to stay behind.
          const isBack = offset < lastOffset.current && !hasShrunk.current;
          if (isThere) isAtEnd.current = true;
          else if (isBack) isAtEnd.current = false;
          lastOffset.current = offset;
          hasShrunk.current = false;
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
          onClick={toEnd}
        >
          <ArrowDown aria-hidden size={14} /> {endLabel}
        </Button>
      ) : null}
    </div>
  );
}
