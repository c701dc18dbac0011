/** Moves focus to the composer. */

export const COMPOSER_ID = "composer";

/** Return true if the page has a message field. */
export function hasComposer(): boolean {
  return document.getElementById(COMPOSER_ID) !== null;
}

export function focusComposer(): void {
  // On touch screens focus would open the on-screen keyboard.
  if (matchMedia("(hover: hover)").matches) document.getElementById(COMPOSER_ID)?.focus();
}

/** For the menus of the composer: once something is chosen, the user goes on writing. */
export function focusAfterChoice(hasChosen: boolean): boolean {
  if (hasChosen) focusComposer();
  return hasChosen;
}
