/** Tools page. */

import { useNavigate, useSearch } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { BuiltinTools } from "@/features/tools/BuiltinTools";
import { NewServer } from "@/features/tools/NewServer";
import { PolicyRules } from "@/features/tools/PolicyRules";
import { Servers } from "@/features/tools/Servers";
import { useToolStrings } from "@/features/tools/useTools";
import { useStrings } from "@/i18n/context";
import { PageFrame } from "@/layout/PageFrame";
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
