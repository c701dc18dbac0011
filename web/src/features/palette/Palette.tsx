/** Command palette. Its field takes text at once; its choices are loaded soon after the page. */

import { type KeyboardEvent, lazy, Suspense, useEffect, useId, useRef, useState } from "react";
import { useStrings } from "@/i18n/context";
import { useActions, usePage } from "@/state/context";
import { Modal } from "@/ui/Modal";

const loadChoices = () => import("@/features/palette/ChoiceList");
const ChoiceList = lazy(loadChoices);
const PRELOAD_MS = 1500;

export function Palette() {
  const strings = useStrings();
  const actions = useActions();
  const open = usePage((page) => page.paletteOpen);
  useEffect(() => {
    const timer = setTimeout(() => void loadChoices().catch(() => undefined), PRELOAD_MS);
    return () => clearTimeout(timer);
  }, []);
  if (!open) return null;
  const close = () => actions.setPaletteOpen(false);
  return (
    <Modal
      open
      label={strings.palette}
      onClose={close}
      className="mx-auto mt-[12vh] mb-auto w-[min(36rem,92vw)] rounded-box border border-line bg-raised p-0 shadow-float"
    >
      <Chooser onDone={close} />
    </Modal>
  );
}

function Chooser({ onDone }: { onDone: () => void }) {
  const strings = useStrings();
  const id = useId();
  const [wanted, setWanted] = useState("");
  const [active, setActive] = useState<string>();
  // Set by the choices once they are loaded.
  const keys = useRef<((event: KeyboardEvent) => void) | null>(null);
  return (
    <>
      <input
        role="combobox"
        aria-expanded
        aria-controls={id}
        aria-activedescendant={active}
        aria-label={strings.palette}
        placeholder={strings.paletteHint}
        value={wanted}
        onChange={(event) => setWanted(event.target.value)}
        onKeyDown={(event) => !event.nativeEvent.isComposing && keys.current?.(event)}
        className="h-12 w-full border-b border-line bg-transparent px-4 text-prose outline-none placeholder:text-faint"
      />
      <Suspense fallback={<div id={id} role="listbox" aria-label={strings.palette} />}>
        <ChoiceList id={id} wanted={wanted} keys={keys} onActive={setActive} onDone={onDone} />
      </Suspense>
    </>
  );
}
