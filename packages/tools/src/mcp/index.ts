/** Apart from the other tools: the SDK takes a while to load, and most servers never need it. */
export { type McpOptions, McpServers } from './mcp-servers.ts';
