/** Where the keyboard goes when what it was on is done with. */

export const COMPOSER_ID = "composer";

export function focusComposer(): void {
  // On a phone focus would raise the keyboard over what is to be read.
  if (matchMedia("(hover: hover)").matches) document.getElementById(COMPOSER_ID)?.focus();
}
