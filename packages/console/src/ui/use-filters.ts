/** The filters of a page, which its address holds. */
import { useSearchParams } from 'wouter';

/** `resets` are the names of what a change of the filters ends, such as the selected entry. */
export function useFilters(...resets: readonly string[]) {
  const [search, setSearch] = useSearchParams();
  const setFilter = (name: string, value: string) =>
    setSearch(
      (before) => {
        const next = new URLSearchParams(before);
        for (const each of resets) next.delete(each);
        if (value === '') next.delete(name);
        else next.set(name, value);
        return next;
      },
      { replace: true },
    );
  const clearFilters = () => setSearch(new URLSearchParams());
  return { search, setFilter, clearFilters };
}
