/**
 * What another node has stored. A hint says where to look and never what is there; one that is lost
 * costs a moment and nothing else, because everybody looks around now and then.
 */
export type Hint =
  /** Its journal has grown. */
  | { readonly kind: 'journal'; readonly runId: string }
  /** Its journal has grown, and its status has changed. */
  | { readonly kind: 'run'; readonly tenantId: string; readonly runId: string }
  | { readonly kind: 'approval'; readonly tenantId: string; readonly approvalId: string }
  /** There is something to do for it: it was told something, or nobody holds it any more. */
  | { readonly kind: 'wake'; readonly tenantId: string; readonly runId: string }
  /** Its settings or keys have changed. */
  | { readonly kind: 'tenant'; readonly tenantId: string }
  /** Hints may have been lost. */
  | { readonly kind: 'all' };
