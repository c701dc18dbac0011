/** Thread list as a sidebar, or as a drawer on narrow screens. */

import { useActions, usePage, useStrings } from "@/app/context";
import { ThreadList } from "@/features/threads/ThreadList";
import { Modal } from "@/ui/Modal";
import { useIsNarrow } from "@/ui/useIsNarrow";

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
