/** Return true if the page shows a button with this mark. */
export function hasShortcut(name: string): boolean {
  return findButton(name) !== null;
}

/** Press the button that is marked with `data-shortcut`, as the keyboard would. */
export function pressShortcut(name: string): void {
  const button = findButton(name);
  if (button === null) return;
  button.focus();
  // Menus open by keys or pointers, other buttons by clicks.
  if (button.getAttribute("aria-haspopup") === "menu")
    button.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
  else button.click();
}

function findButton(name: string): HTMLElement | null {
  return document.querySelector<HTMLElement>(`[data-shortcut="${name}"]`);
}
