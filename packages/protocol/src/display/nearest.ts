/** What a mistyped name was meant to be. */

/** The known name that differs least, by at most `most` letters; undefined if none is that near. */
export function nearestTo(
  name: string,
  known: readonly string[],
  most: number,
): string | undefined {
  const [best] = known
    .map((each) => ({ each, distance: distanceOf(name, each) }))
    .toSorted((a, b) => a.distance - b.distance);
  return best !== undefined && best.distance <= most ? best.each : undefined;
}

/** The known name that is most likely meant: the same words in another order, or a few other letters. */
export function meantBy(name: string, known: readonly string[]): string | undefined {
  const most = Math.min(3, Math.floor(name.length / 2));
  return known.find((each) => wordsOf(each) === wordsOf(name)) ?? nearestTo(name, known, most);
}

/** The end of an error message about an unknown name; empty if no known name is near. */
export function didYouMean(name: string, known: readonly string[]): string {
  const meant = meantBy(name, known);
  return meant === undefined ? '' : `; did you mean ${meant}?`;
}

function wordsOf(name: string): string {
  return name.split(/[_-]/).toSorted().join('_');
}

/** Damerau-Levenshtein distance (optimal string alignment). */
function distanceOf(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, column) => column)];
  const at = (row: number, column: number) => rows[row]?.[column] ?? 0;
  for (let i = 1; i <= a.length; i += 1) {
    rows.push([i]);
    for (let j = 1; j <= b.length; j += 1) {
      const same = a[i - 1] === b[j - 1];
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      rows[i]?.push(
        Math.min(
          at(i - 1, j) + 1,
          at(i, j - 1) + 1,
          at(i - 1, j - 1) + (same ? 0 : 1),
          swapped ? at(i - 2, j - 2) + 1 : Infinity,
        ),
      );
    }
  }
  return at(a.length, b.length);
}
