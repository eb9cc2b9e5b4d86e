export interface Requirement {
  /** `<seed>:<topic>:<slug>`; tests cite it, so it never changes. */
  readonly id: string;
  /** The heading of the seed below which the sentence stands. */
  readonly place: string;
  readonly text: string;
}
