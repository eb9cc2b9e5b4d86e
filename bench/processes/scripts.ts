/** How the scripted provider answers, by the name of the model. */
export interface Script {
  readonly tokens: number;
  readonly tokensPerWrite: number;
  /** The time between two writes; 0 for as fast as it goes. */
  readonly everyMs: number;
}

export const scripts = {
  'small-writes': { tokens: 200, tokensPerWrite: 1, everyMs: 0 },
  'large-writes': { tokens: 200, tokensPerWrite: 10, everyMs: 0 },
  paced: { tokens: 300, tokensPerWrite: 1, everyMs: 10 },
} as const satisfies Record<string, Script>;
