/** Installs a skill from a file. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useRef } from "react";
import { useStrings } from "@/i18n/context";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";

/** The button and the notice below the page title. */
export function useInstallation() {
  const server = useServer();
  const queries = useQueryClient();
  const navigate = useNavigate();
  return useMutation({
    mutationFn: (file: File) => server.installSkill(file),
    onSuccess: async ({ skill_name: name }) => {
      await queries.invalidateQueries({ queryKey: ["skills"] });
      await navigate({ to: "/skills/$name", params: { name } });
    },
  });
}

export function InstallButton({ busy, onChoose }: { busy: boolean; onChoose: (file: File) => void }) {
  const { skill: strings } = useStrings();
  const picker = useRef<HTMLInputElement>(null);
  return (
    <>
      <Button disabled={busy} onClick={() => picker.current?.click()}>
        {busy ? strings.installing : strings.install}
      </Button>
      <input
        ref={picker}
        type="file"
        accept=".skill,.zip"
        hidden
        aria-label={strings.install}
        onChange={({ target }) => {
          const [file] = target.files ?? [];
          if (file !== undefined) onChoose(file);
          target.value = "";
        }}
      />
    </>
  );
}
