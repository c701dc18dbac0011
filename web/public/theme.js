// Puts the remembered theme on the page before anything is drawn. The key is the one app/preferences.ts writes.
try {
  const { theme } = JSON.parse(localStorage.getItem("deerflow.preferences") ?? "{}");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage may be refused or damaged; the system's theme is then right.
}
