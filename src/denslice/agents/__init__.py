"""The tools and resources that an agent has over MCP: `denslice mcp INDEX`. Needs the extra `mcp`."""
