/** Name of the command key on this platform. */
export function commandKey(platform: string): string {
  return /mac|iphone|ipad/i.test(platform) ? "⌘" : "Ctrl";
}
