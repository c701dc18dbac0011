/** An image on the whole screen, with zoom. */

import { Maximize, X, ZoomIn, ZoomOut } from "lucide-react";
import {
  type KeyboardEvent,
  type PointerEvent,
  type ReactNode,
  type RefObject,
  useEffect,
  useRef,
  useState,
} from "react";
import { createPortal } from "react-dom";
import { useStrings } from "@/i18n/context";
import { IconButton } from "@/ui/IconButton";
import { Modal } from "@/ui/Modal";

interface Props {
  readonly image: string;
  readonly label: string;
  readonly onClose: () => void;
  /** Drawings may be enlarged to fill the screen; photographs are not. */
  readonly scalable?: boolean;
  /** Buttons before the zoom buttons. */
  readonly children?: ReactNode;
}

const STEP = 1.25;
const LARGEST = 8;
const MARGIN_PX = 32;

export default function Lightbox({ image, label, onClose, scalable = false, children }: Props) {
  const strings = useStrings();
  const area = useRef<HTMLDivElement>(null);
  const [natural, setNatural] = useState({ width: 0, height: 0 });
  const [zoom, setZoom] = useState(1);
  const change = (factor: number) => setZoom((now) => Math.min(Math.max(now * factor, 1), LARGEST));
  useWheelZoom(area, change);
  const fitting = useFit(area, natural, scalable);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "+" || event.key === "=") change(STEP);
    else if (event.key === "-") change(1 / STEP);
    else if (event.key === "0") setZoom(1);
  };
  // Outside the text, whose styles would apply to the image.
  return createPortal(
    <Modal
      open
      label={label}
      onClose={onClose}
      className="m-0 h-dvh max-h-none w-dvw max-w-none flex-col bg-paper p-0 open:flex"
    >
      <div className="flex h-12 shrink-0 items-center gap-1 border-b border-line pr-2 pl-4">
        <h2 className="min-w-0 flex-1 truncate font-medium">{label}</h2>
        {children}
        <IconButton
          icon={ZoomOut}
          label={strings.zoomOut}
          disabled={zoom <= 1}
          onClick={() => change(1 / STEP)}
        />
        <IconButton
          icon={ZoomIn}
          label={strings.zoomIn}
          disabled={zoom >= LARGEST}
          onClick={() => change(STEP)}
        />
        <IconButton
          icon={Maximize}
          label={strings.zoomFit}
          disabled={zoom === 1}
          onClick={() => setZoom(1)}
        />
        <IconButton icon={X} label={strings.close} onClick={onClose} />
      </div>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: keys and dragging repeat what the buttons and scrolling do */}
      <div
        ref={area}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: an enlarged image must be scrollable by keyboard
        tabIndex={0}
        onKeyDown={onKeyDown}
        onPointerMove={drag}
        className={`flex min-h-0 flex-1 overflow-auto bg-rail focus-visible:-outline-offset-2 ${zoom > 1 ? "cursor-grab active:cursor-grabbing" : ""}`}
      >
        <img
          src={image}
          alt={label}
          draggable={false}
          onLoad={({ currentTarget: { naturalWidth: width, naturalHeight: height } }) =>
            setNatural({ width, height })
          }
          style={{ width: natural.width * fitting * zoom || undefined }}
          className="m-auto h-auto max-w-none shrink-0 select-none"
        />
      </div>
    </Modal>,
    document.body,
  );
}

/** Scroll by dragging with a mouse; touch screens scroll by themselves. */
function drag({ currentTarget, buttons, pointerType, movementX, movementY }: PointerEvent): void {
  if (pointerType === "mouse" && buttons === 1) currentTarget.scrollBy(-movementX, -movementY);
}

type Area = RefObject<HTMLDivElement | null>;

/** Return the scale at which the image fits. */
function useFit(area: Area, { width, height }: { width: number; height: number }, scalable: boolean): number {
  const [room, setRoom] = useState({ width: 0, height: 0 });
  useEffect(() => {
    if (area.current === null) return;
    const sizes = new ResizeObserver(([entry]) => {
      if (entry !== undefined) setRoom(entry.contentRect);
    });
    sizes.observe(area.current);
    return () => sizes.disconnect();
  }, [area]);
  const fit = Math.min((room.width - MARGIN_PX) / width, (room.height - MARGIN_PX) / height);
  return Number.isFinite(fit) && fit > 0 ? Math.min(fit, scalable ? 3 : 1) : 1;
}

/** Zoom with the wheel while Ctrl is pressed, which is also what a touchpad sends for a pinch. */
function useWheelZoom(area: Area, change: (factor: number) => void): void {
  const latest = useRef(change);
  latest.current = change;
  useEffect(() => {
    const element = area.current;
    const onWheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      latest.current(event.deltaY < 0 ? STEP : 1 / STEP);
    };
    element?.addEventListener("wheel", onWheel, { passive: false });
    return () => element?.removeEventListener("wheel", onWheel);
  }, [area]);
}
