export { calculator } from './calculator.ts';
export { defineTool, type ToolDefinition } from './define-tool.ts';
export { createToolRegistry } from './registry.ts';
export { createSendNote } from './send-note.ts';
