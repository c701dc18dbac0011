/** What the addresses of the tools' pages say. */

export interface ToolsSearch {
  /** A server is being added. */
  readonly adding?: boolean;
}

export function toolsSearch({ adding }: Record<string, unknown>): ToolsSearch {
  return adding === true ? { adding } : {};
}

/** How a login ended that led away from the page and back. */
export interface ServerSearch {
  readonly mcp_login?: "done" | "failed";
  readonly mcp_problem?: string;
}

export function serverSearch({ mcp_login, mcp_problem }: Record<string, unknown>): ServerSearch {
  return {
    ...((mcp_login === "done" || mcp_login === "failed") && { mcp_login }),
    ...(typeof mcp_problem === "string" && { mcp_problem }),
  };
}
