export * from './run/agents/registry.ts';
export * from './commands/record-decision.ts';
export {
  countedVotes,
  demandsApprovers,
  mayDecide,
  type Requirement,
  requirementFor,
} from './commands/votes.ts';
export { auditRecordsOf, auditOfGrant } from './governance/audit.ts';
export { exhaustedBudget, startOf } from './governance/budgets.ts';
export * from './commands/sessions/create.ts';
export * from './commands/sessions/invoke-action.ts';
export {
  endInvocation,
  type InvocationEngine,
  type InvocationResult,
  readInvocation,
  recordResult,
} from './commands/sessions/end-invocation.ts';
export * from './commands/request-permission.ts';
export * from './commands/sessions/request.ts';
export {
  byHandle,
  type MessageAuthor,
  type MessageDraft,
  readerOf,
  sendMessage,
  type SentMessage,
} from './commands/sessions/send-message.ts';
export * from './commands/sessions/change-message.ts';
export * from './commands/start-run.ts';
export * from './commands/sessions/stream.ts';
export * from './commands/sessions/attach.ts';
export * from './commands/sessions/attend.ts';
export * from './commands/sessions/attend-invocation.ts';
export * from './commands/sessions/host.ts';
export {
  changeSession,
  commandTimeoutMs,
  hasProgram,
  noSuchSession,
  offlineAfterMs,
  sessionReleased,
} from './commands/sessions/change-session.ts';
export * from './commands/sessions/record-receipt.ts';
export { sendReplies } from './sessions/replies.ts';
export { noTerminal, requestInput, requireTerminal } from './commands/sessions/input.ts';
export * from './commands/sessions/lifecycle.ts';
export * from './engine.ts';
export * from './permission/explain.ts';
export * from './runtime/fair-queue.ts';
export * from './commands/fork.ts';
export {
  askFork,
  type ForkRequest,
  forkNative,
  forkProgram,
  readNativeSnapshot,
  readProgramSnapshot,
  snapshotNative,
  snapshotProgram,
} from './commands/sessions/fork.ts';
export {
  faultsOf,
  type GrantTerms,
  previewGrant,
  proposedRule,
  requireAdminForWholeTool,
  requireFutureExpiry,
  suggestedRule,
} from './permission/grants.ts';
export { suggestRules } from './permission/suggest.ts';
export * from './journal.ts';
export { findMemories } from './run/context/memory-search.ts';
export * from './permission/approvers.ts';
export * from './permission/decide.ts';
export * from './permission/keys.ts';
export {
  checkPermissions,
  checkPermissionsInTurn,
  matchesPermission,
  matchesPermissions,
  type ParameterKind,
  type PatternFault,
  type ToolCallLike,
  type ToolRule,
} from './permission/match.ts';
export { checkRuleTool, unknownToolNote } from './permission/tool-name.ts';
export { compileGlob } from './permission/glob/glob.ts';
export { suggestedPattern } from './permission/shell/allow.ts';
export { listedItems, type Policy, policiesOf, previewPolicy } from './permission/policy.ts';
export * from './ports/index.ts';
export { combinePublishers } from './publisher.ts';
export * from './commands/resume.ts';
export { parseCheckpoint } from './run/state/checkpoint.ts';
export { isWaitingForAnswer } from './run/waiting/questions.ts';
export { idempotencyKeyOf, isNestedTooDeep } from './run/arguments.ts';
export { loadState } from './run/recover.ts';
export { firstOutputTimeoutMs } from './run/turn.ts';
export { handoffToolName } from './run/agents/profile.ts';
export { TranscriptCache } from './run/context/transcript-cache.ts';
export { emptyTranscript, foldTranscript, type Transcript } from './run/context/transcript.ts';
export {
  evolve,
  initialState,
  partialOutputOf,
  readSnapshot,
  type RunState,
} from './run/state/state.ts';
export * from './sessions/actions.ts';
export * from './sessions/invocation-runner.ts';
export {
  bytesOf,
  channelFor,
  contentOf,
  type DeliveryError,
  maxHops,
} from './sessions/acceptance.ts';
export { messagesOf } from './sessions/context.ts';
export { type AttendantOptions, SessionAttendant } from './sessions/attendant.ts';
export * from './sessions/capabilities.ts';
export * from './sessions/delivery-machine.ts';
export { mentionsIn } from './sessions/mentions.ts';
export * from './sessions/modes.ts';
export * from './sessions/native.ts';
export { NativeTurns, type TurnOptions } from './sessions/native-turns.ts';
export * from './sessions/session-machine.ts';
export * from './sessions/state.ts';
export * from './sessions/turn.ts';
export { AsyncQueue, type AsyncQueueOwner, type EventStream } from './runtime/async-queue.ts';
export { exponentialBackoff } from './runtime/backoff.ts';
export { BackgroundLoop, type BackgroundLoopOptions } from './runtime/background-loop.ts';
export { eventLoop } from './runtime/event-loop-budget.ts';
export { charsIn, MemoryBudget } from './runtime/memory-budget.ts';
export { Signal, type Timeout } from './runtime/signal.ts';
export { Ticker } from './runtime/ticker.ts';
export { Supervisor } from './supervisor.ts';
export { systemClock } from './runtime/system-clock.ts';
export * from './commands/post-result.ts';
export * from './commands/message-run.ts';
