/** Times on the wire. */
export function iso(time: number): string {
  return new Date(time).toISOString();
}

/** A time that may be missing; JSON then leaves the property out. */
export function isoOrNone(time: number | null | undefined): string | undefined {
  return time === null || time === undefined ? undefined : iso(time);
}

/** A time of a request, in milliseconds. */
export function timeOf(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Date.parse(text);
}
