/** Text viewer and editor. */

import { useQueryClient } from "@tanstack/react-query";
import { lazy, useState } from "react";
import { fileName } from "@/api/artifacts";
import { ApiError } from "@/api/http";
import type { TextFile } from "@/api/threadFiles";
import { endingOf } from "@/files/kinds";
import { textKey, useText } from "@/files/useText";
import { useStrings } from "@/i18n/context";
import { useFeature, useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { ErrorState, LoadingState } from "@/ui/states";

const CodeEditor = lazy(() => import("@/ui/CodeEditor"));

interface Props {
  readonly threadId: string;
  readonly path: string;
}

export function TextView({ threadId, path }: Props) {
  const strings = useStrings();
  const file = useText(threadId, path);
  const editable = useFeature("artifact_editing");
  const [edited, setEdited] = useState<TextFile | null>(null);
  const [copy, setCopy] = useState<string | null>(null);
  if (file.isPending) return <LoadingState />;
  if (file.isError) return <ErrorState text={strings.fileMissing} onRetry={() => void file.refetch()} />;
  if (file.data === null) return <ErrorState text={strings.noPreview} />;
  const { data } = file;
  if (edited !== null) {
    return (
      <EditedText
        threadId={threadId}
        path={path}
        file={edited}
        onDone={() => setEdited(null)}
        onCopied={setCopy}
      />
    );
  }
  return (
    <>
      {copy !== null && (
        <p role="status" className="border-b border-line bg-done-tint px-3 py-2 text-small text-done">
          {strings.fileKept(copy)}
        </p>
      )}
      <CodeEditor text={data.text} ending={endingOf(path)} label={fileName(path)} readOnly />
      {editable && data.sha256 !== "" && (
        <div className={BAR}>
          <Button onClick={() => setEdited(data)}>{strings.edit}</Button>
        </div>
      )}
    </>
  );
}

type Trouble = "conflict" | "failed" | null;

const MOST_COPIES = 20;

interface EditedProps extends Props {
  readonly file: TextFile;
  readonly onDone: () => void;
  /** Called with the name of the saved copy. */
  readonly onCopied: (name: string) => void;
}

/** Editor state; the text is kept if saving fails. */
function EditedText({ threadId, path, file, onDone, onCopied }: EditedProps) {
  const strings = useStrings();
  const server = useServer();
  const queries = useQueryClient();
  const [text, setText] = useState(file.text);
  const [saving, setSaving] = useState(false);
  const [trouble, setTrouble] = useState<Trouble>(null);

  const save = async () => {
    setSaving(true);
    setTrouble(null);
    try {
      const { sha256 } = await server.saveText(threadId, path, text, file.sha256);
      queries.setQueryData(textKey(threadId, path), { text, sha256 });
      onDone();
    } catch (error) {
      setTrouble(error instanceof ApiError && error.status === 409 ? "conflict" : "failed");
    } finally {
      setSaving(false);
    }
  };
  const reload = () => {
    void queries.invalidateQueries({ queryKey: textKey(threadId, path) });
    onDone();
  };
  /** Save the user's text as a copy next to the newer file. */
  const keepBoth = async () => {
    setSaving(true);
    try {
      const copy = await saveCopy((name) => server.saveText(threadId, name, text, null), path);
      await queries.invalidateQueries({ queryKey: ["thread", threadId] });
      onCopied(fileName(copy));
      reload();
    } catch {
      setTrouble("failed");
    } finally {
      setSaving(false);
    }
  };

  return (
    <>
      <CodeEditor text={file.text} ending={endingOf(path)} label={fileName(path)} onChange={setText} />
      {trouble !== null && (
        <p role="alert" className="border-t border-line bg-warning-tint px-3 py-2 text-small text-warning">
          {trouble === "conflict" ? strings.fileConflict : strings.fileNotSaved}
        </p>
      )}
      <div className={BAR}>
        {trouble === "conflict" && (
          <>
            <Button onClick={reload}>{strings.fileReload}</Button>
            <Button disabled={saving} onClick={() => void keepBoth()}>
              {strings.fileKeepBoth}
            </Button>
          </>
        )}
        <Button onClick={onDone}>{strings.cancel}</Button>
        <Button primary disabled={saving || text === file.text} onClick={() => void save()}>
          {strings.save}
        </Button>
      </div>
    </>
  );
}

/** Save under the first free name: `notes-mine.md`, `notes-mine-2.md`; resolves to it. */
async function saveCopy(save: (path: string) => Promise<unknown>, path: string): Promise<string> {
  const dot = path.lastIndexOf(".") > path.lastIndexOf("/") + 1 ? path.lastIndexOf(".") : path.length;
  for (let number = 1; ; number++) {
    const name = `${path.slice(0, dot)}-mine${number === 1 ? "" : `-${number}`}${path.slice(dot)}`;
    try {
      await save(name);
      return name;
    } catch (error) {
      const taken = error instanceof ApiError && error.status === 409;
      if (!taken || number === MOST_COPIES) throw error;
    }
  }
}

const BAR = "flex shrink-0 justify-end gap-2 border-t border-line px-3 py-2";
