/** Export, import and delete a memory. */

import { useMutation } from "@tanstack/react-query";
import { Download, Ellipsis, Eraser, Upload } from "lucide-react";
import { useRef } from "react";
import { useErasing } from "@/features/memory/Erasing";
import { useChange, useShown } from "@/features/memory/useMemory";
import { sentence } from "@/i18n/i18n";
import { useMemoryStrings } from "@/i18n/useMemoryStrings";
import { useServer } from "@/state/server";
import { saveFile } from "@/ui/dom/saveFile";
import { IconButton } from "@/ui/IconButton";
import { Menu, MenuItem, MenuLine } from "@/ui/Menu";

export function MemoryMenu({ onProblem }: { onProblem: (problem: string | null) => void }) {
  const strings = useMemoryStrings();
  const { of } = useShown();
  const server = useServer();
  const picker = useRef<HTMLInputElement>(null);
  const erasing = useErasing();
  const importing = useImport(onProblem);
  const exporting = useMutation({
    networkMode: "always",
    mutationFn: () => server.exportMemory(of),
    onMutate: () => onProblem(null),
    onSuccess: (text) => saveFile({ name: "memory.json", type: "application/json", text }),
    onError: (error) => onProblem(`${strings.notExported} ${sentence(error.message)}`),
  });
  return (
    <>
      <Menu align="end" trigger={<IconButton icon={Ellipsis} label={strings.more} />}>
        <MenuItem icon={Download} label={strings.export} onChoose={() => exporting.mutate()} />
        <MenuItem icon={Upload} label={strings.import} onChoose={() => picker.current?.click()} />
        <MenuLine />
        <MenuItem icon={Eraser} label={strings.eraseAll} onChoose={() => erasing.ask({ kind: "all" })} />
      </Menu>
      <input
        ref={picker}
        type="file"
        accept=".json,application/json"
        hidden
        aria-label={strings.import}
        onChange={({ target }) => {
          const [file] = target.files ?? [];
          if (file !== undefined) importing.mutate(file);
          target.value = "";
        }}
      />
      {erasing.dialog}
    </>
  );
}

function useImport(onProblem: (problem: string | null) => void) {
  const strings = useMemoryStrings();
  const { of } = useShown();
  const server = useServer();
  const importing = useChange(
    async (file: File) => {
      onProblem(null);
      try {
        return await server.importMemory(of, parsed(await file.text(), strings.notAFile));
      } catch (error) {
        onProblem(`${strings.notImported} ${sentence(error instanceof Error ? error.message : "")}`);
        throw error;
      }
    },
    { text: strings.imported, undoable: true },
  );
  return importing;
}

function parsed(text: string, objection: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(objection);
  }
}
