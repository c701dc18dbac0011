/** File name that opens the panel. */

import { fileName } from "@/api/artifacts";
import { useStrings } from "@/i18n/context";
import { useOpenPanel } from "@/state/usePanel";

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
