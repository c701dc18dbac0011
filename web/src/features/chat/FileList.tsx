/** The files a mention may mean, to choose one of them. */

import { FileText } from "lucide-react";
import { useWords } from "@/app/context";
import { fileName } from "@/features/chat/tools";

export const FILE_LIST_ID = "composer-files";
export const fileOptionId = (index: number) => `${FILE_LIST_ID}-${index}`;

interface Props {
  readonly paths: readonly string[];
  readonly current: number;
  readonly onChoose: (path: string) => void;
}

export function FileList({ paths, current, onChoose }: Props) {
  const words = useWords();
  return (
    <div
      id={FILE_LIST_ID}
      role="listbox"
      aria-label={words.files}
      className="mb-2 max-h-60 animate-appear overflow-y-auto rounded-box border border-line bg-raised p-1 shadow-float"
    >
      {paths.map((path, index) => (
        <div
          key={path}
          id={fileOptionId(index)}
          role="option"
          aria-selected={index === current}
          tabIndex={-1}
          // The keyboard stays where the text is.
          onMouseDown={(event) => {
            event.preventDefault();
            onChoose(path);
          }}
          className={`flex min-h-8 cursor-pointer items-center gap-2 rounded-[6px] px-2 py-1 ${index === current ? "bg-tint" : ""}`}
        >
          <FileText aria-hidden className="size-4 shrink-0 text-faint" />
          <span className="shrink-0">{fileName(path)}</span>
          <span className="min-w-0 truncate text-small text-faint">{path}</span>
        </div>
      ))}
    </div>
  );
}
