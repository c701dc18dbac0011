/** Forms to add a server: written in fields, or pasted. */

import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { McpEntry } from "@/api/tools";
import type { EntryDraft } from "@/features/tools/entry";
import { PasteForm } from "@/features/tools/PasteForm";
import { ServerForm } from "@/features/tools/ServerForm";
import { SERVERS, useServerChange, useToolStrings } from "@/features/tools/useTools";
import { useServer } from "@/state/server";
import { Segments } from "@/ui/Segments";

type Way = EntryDraft["way"] | "paste";

interface Made {
  readonly name: string;
  readonly entry: McpEntry;
}

const EMPTY: McpEntry = {};

export function NewServer() {
  const strings = useToolStrings();
  const navigate = useNavigate();
  const server = useServer();
  const [way, setWay] = useState<Way>("stdio");
  const config = useQuery({ queryKey: [...SERVERS, "config"], queryFn: server.mcpConfig });
  const adding = useServerChange(({ name, entry }: Made) => server.putMcpServer(name, entry));
  const known = config.data?.mcp_servers ?? {};
  const add = async (name: string, entry: McpEntry) => {
    await adding.mutateAsync({ name, entry });
    await navigate({ to: "/tools/$server", params: { server: name } });
  };
  const cancel = () => void navigate({ to: "/tools" });
  return (
    <div className="flex flex-col gap-4">
      <div className="flex">
        <Segments<Way>
          label={strings.how}
          value={way}
          options={{ ...strings.ways, paste: strings.paste }}
          onChoose={setWay}
        />
      </div>
      {/* The other form is hidden, so that its text is kept. */}
      <div hidden={way === "paste"}>
        <ServerForm
          name={null}
          entry={EMPTY}
          taken={Object.keys(known)}
          way={way === "http" ? "http" : "stdio"}
          onSave={add}
          onCancel={cancel}
        />
      </div>
      <div hidden={way !== "paste"}>
        <PasteForm known={known} onCancel={cancel} />
      </div>
    </div>
  );
}
