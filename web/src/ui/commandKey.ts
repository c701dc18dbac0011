/** What the key beside the space bar is called here. */
export function commandKey(platform: string): string {
  return /mac|iphone|ipad/i.test(platform) ? "⌘" : "Ctrl";
}
