/** Slides of a presentation as pictures, with their notes. */

import { useMemo } from "react";
import type { OfficePreview } from "@/api/threadFiles";
import { usePreviewStrings } from "@/i18n/useResultStrings";
import { ErrorState } from "@/ui/states";

type Slides = Extract<OfficePreview, { kind: "slides" }>;

export function SlidesView({ preview }: { preview: Slides }) {
  const strings = usePreviewStrings();
  const { slides, total, width, height } = preview;
  if (total === 0) return <ErrorState text={strings.noSlides} />;
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be scrolled with keys */}
      <div tabIndex={0} className="min-h-0 flex-1 overflow-y-auto bg-rail p-3">
        <ol className="flex flex-col gap-4">
          {slides.map((slide, index) => (
            <SlideView
              // biome-ignore lint/suspicious/noArrayIndexKey: slides keep their places
              key={index}
              slide={slide}
              number={index + 1}
              ratio={`${width} / ${height}`}
            />
          ))}
        </ol>
      </div>
      <p className="shrink-0 border-t border-line px-3 py-2 text-small text-faint">
        {strings.slidesShown(slides.length, total)}
      </p>
    </>
  );
}

interface SlideProps {
  readonly slide: Slides["slides"][number];
  readonly number: number;
  readonly ratio: string;
}

function SlideView({ slide, number, ratio }: SlideProps) {
  const strings = usePreviewStrings();
  // As an image, the drawing can neither run scripts nor load anything.
  const source = useMemo(() => `data:image/svg+xml;utf8,${encodeURIComponent(slide.svg)}`, [slide.svg]);
  const name = strings.slide(number, slide.title);
  return (
    <li className="mx-auto w-full max-w-[80rem]">
      <figure>
        <img
          src={source}
          alt={slide.text === "" ? name : `${name}\n${slide.text}`}
          style={{ aspectRatio: ratio }}
          className="w-full border border-line bg-sheet"
        />
        <figcaption className="mt-1 flex gap-2 text-small text-faint">
          <span className="shrink-0">{number}</span>
          {slide.is_hidden && <span className="shrink-0">{strings.slideHidden}</span>}
          {slide.notes !== "" && (
            <span className="whitespace-pre-wrap text-soft">
              <span className="font-medium">{strings.slideNotes}: </span>
              {slide.notes}
            </span>
          )}
        </figcaption>
      </figure>
    </li>
  );
}
