/** Button that toggles the thread list. */

import { PanelLeft } from "lucide-react";
import { useStrings } from "@/i18n/context";
import { useIsDrawer, useToggleList } from "@/layout/useToggleList";
import { usePage } from "@/state/context";
import { IconButton } from "@/ui/IconButton";

export function ListToggle() {
  const strings = useStrings();
  const toggleList = useToggleList();
  const isDrawer = useIsDrawer();
  const listOpen = usePage((page) => (isDrawer ? page.drawerOpen : page.preferences.listOpen));
  return (
    <IconButton
      icon={PanelLeft}
      label={listOpen ? strings.hideThreads : strings.showThreads}
      aria-expanded={listOpen}
      onClick={toggleList}
    />
  );
}
