/** Turns texts into vectors: texts of like meaning become vectors of like direction. */
export interface Embedder {
  /** Who makes the vectors, such as `openai:text-embedding-3-small`: others cannot be compared. */
  readonly model: string;
  /** How alike two texts must be, by the cosine of their vectors, to have to do with each other. */
  readonly floor: number;
  /**
   * One vector for each text, in their order. A question is given up after a short time, memories are
   * tried again. A failure is a thrown `ProviderFailure`.
   */
  embed(texts: readonly string[], of: EmbeddingOf): Promise<readonly Float32Array[]>;
}

export interface EmbeddingOf {
  readonly purpose: 'question' | 'memory';
  readonly signal?: AbortSignal;
}

/** The embedders of tenants. Where there is none, nothing that is remembered leaves the machine. */
export interface Embedders {
  /** Of all of them. */
  readonly model: string;
  /** Undefined for a tenant without a credential for it. */
  of(tenantId: string): Promise<Embedder | undefined>;
  /** Says that the tenant has a new memory, which wants a vector soon. */
  remembered(tenantId: string): void;
}
