/** Ref callback that focuses the element on mount. */
export function focusOnMount(element: HTMLElement | null): void {
  element?.focus();
}
