/** File name that opens the panel. */

import { useStrings } from "@/app/context";
import { fileName } from "@/features/chat/tools";
import { useOpenPanel } from "@/features/panel/usePanel";

export function OpenInPanel({ path }: { path: string }) {
  const strings = useStrings();
  const open = useOpenPanel();
  const name = fileName(path);
  return (
    <button
      type="button"
      title={path}
      aria-label={strings.openInPanel(name)}
      onClick={() => open("artifacts", path)}
      className="block max-w-full truncate text-left font-medium hover:underline"
    >
      {name}
    </button>
  );
}
