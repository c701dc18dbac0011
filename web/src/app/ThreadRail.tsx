/** Thread list as a sidebar, or as a drawer on narrow screens. */

import { ThreadList } from "@/features/threads/ThreadList";
import { useStrings } from "@/i18n/context";
import { useIsDrawer } from "@/layout/useToggleList";
import { useActions, usePage } from "@/state/context";
import { Modal } from "@/ui/Modal";

export function ThreadRail() {
  const isDrawer = useIsDrawer();
  const listOpen = usePage((page) => page.preferences.listOpen);
  if (isDrawer) return <Drawer />;
  if (!listOpen) return null;
  return (
    <aside className="w-[260px] shrink-0 border-r border-line bg-rail">
      <ThreadList />
    </aside>
  );
}

function Drawer() {
  const strings = useStrings();
  const actions = useActions();
  const open = usePage((page) => page.drawerOpen);
  return (
    <Modal
      open={open}
      label={strings.threads}
      onClose={() => actions.setDrawerOpen(false)}
      className="fixed inset-y-0 left-0 m-0 h-dvh max-h-none w-[min(300px,85vw)] max-w-none border-r border-line animate-slide-right bg-rail"
    >
      <ThreadList />
    </Modal>
  );
}
