/** Thread list as a sidebar, or as a drawer on narrow screens. */

import { ThreadList } from "@/features/threads/ThreadList";
import { useStrings } from "@/i18n/context";
import { useActions, usePage } from "@/state/context";
import { useIsNarrow } from "@/ui/dom/useIsNarrow";
import { Modal } from "@/ui/Modal";

export function ThreadRail() {
  const narrow = useIsNarrow();
  const listOpen = usePage((page) => page.preferences.listOpen);
  if (narrow) return <Drawer />;
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
      className="fixed inset-y-0 left-0 m-0 h-dvh max-h-none w-[min(300px,85vw)] max-w-none border-r border-line bg-rail"
    >
      <ThreadList />
    </Modal>
  );
}
