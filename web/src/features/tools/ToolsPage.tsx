/** Tools page. */

import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import type { McpEntry } from "@/api/tools";
import { BuiltinTools } from "@/features/tools/BuiltinTools";
import { PolicyRules } from "@/features/tools/PolicyRules";
import { ServerForm } from "@/features/tools/ServerForm";
import { Servers } from "@/features/tools/Servers";
import { SERVERS, useServerChange, useToolStrings } from "@/features/tools/useTools";
import { useStrings } from "@/i18n/context";
import { PageFrame } from "@/layout/PageFrame";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";

export function ToolsPage() {
  const page = useStrings();
  const strings = useToolStrings();
  const navigate = useNavigate();
  const { adding } = useSearch({ from: "/tools" });
  return (
    <PageFrame
      title={adding ? strings.add : page.tools}
      actions={
        !adding && (
          <Button
            primary
            className="inline-flex items-center gap-1"
            onClick={() => void navigate({ to: "/tools", search: { adding: true } })}
          >
            <Plus aria-hidden className="size-4" />
            {strings.add}
          </Button>
        )
      }
    >
      {adding ? (
        <NewServer />
      ) : (
        <>
          <p className="mb-6 text-soft">{strings.hint}</p>
          <div className="flex flex-col gap-8">
            <Servers />
            <PolicyRules />
            <BuiltinTools />
          </div>
        </>
      )}
    </PageFrame>
  );
}

interface Made {
  readonly name: string;
  readonly entry: McpEntry;
}

const EMPTY: McpEntry = {};

function NewServer() {
  const navigate = useNavigate();
  const server = useServer();
  const config = useQuery({ queryKey: [...SERVERS, "config"], queryFn: server.mcpConfig });
  const adding = useServerChange(({ name, entry }: Made) => server.putMcpServer(name, entry));
  const add = async (name: string, entry: McpEntry) => {
    await adding.mutateAsync({ name, entry });
    await navigate({ to: "/tools/$server", params: { server: name } });
  };
  return (
    <ServerForm
      name={null}
      entry={EMPTY}
      taken={Object.keys(config.data?.mcp_servers ?? {})}
      onSave={add}
      onCancel={() => void navigate({ to: "/tools" })}
    />
  );
}
