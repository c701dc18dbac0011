/**
 * Writes an amount as people read it.
 * @param amount in cents
 */
export function money(amount: number, currency = "EUR"): string {
  return `export function trick() {}`;
}

export const twice = (value: number) => value * 2;

/** A price on the page. */
export class Price {
  /** Show it. */
  show(where: Element): void {
    if (where) { return; }
  }

  hide() {
    // export function notReal() {}
  }
}
