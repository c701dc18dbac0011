import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [react(), tailwindcss()],
  resolve: { tsconfigPaths: true },
  build: {
    outDir: "../src/deerflow/gateway/static",
    emptyOutDir: true,
    // The page's content security policy allows no data: fonts, so nothing is inlined.
    assetsInlineLimit: 0,
    rolldownOptions: { input: { index: "index.html", diagram: "diagram.html", live: "live.html" } },
  },
  server: { proxy: { "/api": "http://127.0.0.1:2026" } },
  test: {
    environment: "jsdom",
    setupFiles: "src/testing/setup.ts",
    include: ["src/**/*.test.{ts,tsx}"],
    // The machine may be shared: two workers are as fast as many for a suite this small.
    maxWorkers: 2,
    testTimeout: 30_000,
  },
});
