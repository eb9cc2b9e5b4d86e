/** A long list that is read at its end: it stays there while it grows, and older items are put above. */
import { type ReactNode, useEffect, useLayoutEffect, useRef } from 'react';
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
  useLayoutEffect(() => {
    if (isAtEnd.current) list.current?.scrollToIndex(items.length, { align: 'end' });
  }, [items]);
  return (
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
        isAtEnd.current = offset + viewportSize >= scrollSize - tolerance;
      }}
    >
      <div>{top}</div>
      {items.map((item) => (
        <div key={keyOf(item)}>{children(item)}</div>
      ))}
    </VList>
  );
}
