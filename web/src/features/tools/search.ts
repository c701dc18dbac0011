/** URL search parameters of the tool pages. */

export interface ToolsSearch {
  /** The form to add a server is open. */
  readonly adding?: boolean;
}

export function toolsSearch({ adding }: Record<string, unknown>): ToolsSearch {
  return adding === true ? { adding } : {};
}

/** Result of a login redirect. */
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
