/** A separate entry point, because the SDK is slow to load and most installations do not need it. */
export { type McpOptions, McpServers, type McpServerStatus } from './mcp-servers.ts';
