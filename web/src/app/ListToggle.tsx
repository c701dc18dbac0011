/** Button that toggles the thread list. */

import { PanelLeft } from "lucide-react";
import { usePage, useStrings } from "@/app/context";
import { useToggleList } from "@/app/useShortcuts";
import { IconButton } from "@/ui/IconButton";
import { useIsNarrow } from "@/ui/useIsNarrow";

export function ListToggle() {
  const strings = useStrings();
  const toggleList = useToggleList();
  const narrow = useIsNarrow();
  const listOpen = usePage((page) => (narrow ? page.drawerOpen : page.preferences.listOpen));
  return (
    <IconButton
      icon={PanelLeft}
      label={listOpen ? strings.hideThreads : strings.showThreads}
      aria-expanded={listOpen}
      onClick={toggleList}
    />
  );
}
