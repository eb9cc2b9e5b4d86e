/** A long list that is read at its end: it stays there while it grows, and older items are put above. */
import { type ReactNode, useEffect, useRef } from 'react';
import { VList, type VListHandle } from 'virtua';

interface TailListProps<Item> {
  readonly label: string;
  readonly items: readonly Item[];
  readonly keyOf: (item: Item) => string | number;
  readonly children: (item: Item) => ReactNode;
  /** Above the first item, such as a button that loads older ones. */
  readonly top?: ReactNode;
}

/** This close to the end, in pixels, counts as being there. */
const tolerance = 40;

export function TailList<Item>({ label, items, keyOf, children, top }: TailListProps<Item>) {
  const list = useRef<VListHandle>(null);
  const isAtEnd = useRef(true);
  const first = items[0] === undefined ? undefined : keyOf(items[0]);
  const shownFirst = useRef(first);
  // Items were put above: what is visible must not move.
  const isShifted = first !== shownFirst.current && shownFirst.current !== undefined;
  useEffect(() => {
    shownFirst.current = first;
  }, [first]);
  const place = useRef<HTMLDivElement>(null);
  const lastOffset = useRef(0);
  useEffect(() => {
    // Items change their height when they are measured, opened, or have loaded what they show.
    const content = place.current?.firstElementChild?.firstElementChild;
    if (content === null || content === undefined) return undefined;
    const stay = () => {
      if (isAtEnd.current) list.current?.scrollTo(list.current.scrollSize);
    };
    const resizes = new ResizeObserver(stay);
    resizes.observe(content);
    resizes.observe(content.parentElement ?? content);
    return () => resizes.disconnect();
  }, []);
  return (
    <div ref={place} className="h-full">
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
          if (isThere) isAtEnd.current = true;
          else if (offset < lastOffset.current) isAtEnd.current = false;
          lastOffset.current = offset;
        }}
      >
        <div>{top}</div>
        {items.map((item) => (
          <div key={keyOf(item)}>{children(item)}</div>
        ))}
      </VList>
    </div>
  );
}
