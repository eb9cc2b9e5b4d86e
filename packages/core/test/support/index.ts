export { createCountingIds } from './counting-ids.ts';
export { ManualClock } from './manual-clock.ts';
export {
  createRecordingTool,
  type Execution,
  type RecordingTool,
  type RecordingToolOptions,
} from './recording-tool.ts';
export {
  createScriptedModel,
  finish,
  type ScriptedModel,
  type ScriptedTurn,
  text,
  toolCall,
} from './scripted-model.ts';
