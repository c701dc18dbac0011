/** Tools that do not come from MCP servers. */

import { useQuery } from "@tanstack/react-query";
import { Globe, Hand, type LucideIcon, Send } from "lucide-react";
import type { Tool, ToolSource } from "@/api/tools";
import { useToolStrings, useToolText } from "@/features/tools/useTools";
import { useServer } from "@/state/server";
import { ErrorState, LoadingState } from "@/ui/states";

const SHOWN: readonly Exclude<ToolSource, "mcp">[] = ["configured", "web", "builtin"];

export function BuiltinTools() {
  const strings = useToolStrings();
  const server = useServer();
  const tools = useQuery({ queryKey: ["tools"], queryFn: server.tools });
  return (
    <section aria-label={strings.tools}>
      <h2 className="mb-3 text-title font-semibold">{strings.tools}</h2>
      {tools.isPending ? (
        <LoadingState />
      ) : tools.isError ? (
        <ErrorState text={strings.toolsUnavailable} onRetry={() => void tools.refetch()} />
      ) : (
        <div className="flex flex-col gap-4">
          {SHOWN.map((source) => (
            <Group
              key={source}
              title={strings[source]}
              tools={tools.data.filter((tool) => tool.source === source)}
            />
          ))}
        </div>
      )}
    </section>
  );
}

function Group({ title, tools }: { title: string; tools: readonly Tool[] }) {
  if (tools.length === 0) return null;
  return (
    <section aria-label={title}>
      <h3 className="mb-1 font-medium">{title}</h3>
      <ul className="divide-y divide-line rounded-box border border-line">
        {tools.map((tool) => (
          <Row key={tool.name} tool={tool} />
        ))}
      </ul>
    </section>
  );
}

function Row({ tool }: { tool: Tool }) {
  const strings = useToolStrings();
  return (
    <li className="px-4 py-2">
      <p className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <code className="font-mono text-small font-medium">{tool.name}</code>
        {tool.needs_approval && <Mark icon={Hand} text={strings.approves} />}
        {tool.brings_untrusted && <Mark icon={Globe} text={strings.untrustedOutput} />}
        {tool.reaches_out && !tool.brings_untrusted && <Mark icon={Send} text={strings.out} />}
      </p>
      <p className="line-clamp-2 text-small text-faint [overflow-wrap:anywhere]">{useToolText()(tool)}</p>
    </li>
  );
}

function Mark({ icon: Icon, text }: { icon: LucideIcon; text: string }) {
  return (
    <span className="inline-flex items-center gap-1 text-small text-warning">
      <Icon aria-hidden className="size-3.5 shrink-0" />
      {text}
    </span>
  );
}
