/** What can be done with a whole memory: carried out and in, or erased. */

import { useMutation } from "@tanstack/react-query";
import { Download, Ellipsis, Eraser, Upload } from "lucide-react";
import { useRef } from "react";
import { useServer } from "@/app/server";
import { useErasing } from "@/features/memory/Erasing";
import { useChange, useMemoryWords, useShown } from "@/features/memory/useMemory";
import { IconButton } from "@/ui/IconButton";
import { Menu, MenuItem, MenuLine } from "@/ui/Menu";
import { saveFile } from "@/ui/saveFile";
import { sentence } from "@/words/words";

export function MemoryMenu({ onProblem }: { onProblem: (problem: string | null) => void }) {
  const words = useMemoryWords();
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
    onError: (error) => onProblem(`${words.notExported} ${sentence(error.message)}`),
  });
  return (
    <>
      <Menu align="end" trigger={<IconButton icon={Ellipsis} label={words.more} />}>
        <MenuItem icon={Download} label={words.export} onChoose={() => exporting.mutate()} />
        <MenuItem icon={Upload} label={words.import} onChoose={() => picker.current?.click()} />
        <MenuLine />
        <MenuItem icon={Eraser} label={words.eraseAll} onChoose={() => erasing.ask({ kind: "all" })} />
      </Menu>
      <input
        ref={picker}
        type="file"
        accept=".json,application/json"
        hidden
        aria-label={words.import}
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
  const words = useMemoryWords();
  const { of } = useShown();
  const server = useServer();
  const importing = useChange(
    async (file: File) => {
      onProblem(null);
      try {
        return await server.importMemory(of, parsed(await file.text(), words.notAFile));
      } catch (error) {
        onProblem(`${words.notImported} ${sentence(error instanceof Error ? error.message : "")}`);
        throw error;
      }
    },
    { text: words.imported, undoable: true },
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
