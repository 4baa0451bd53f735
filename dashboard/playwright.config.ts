import { defineConfig } from '@playwright/test';

// Playwright's own list, as far as it matters here, because Chromium uses only the last --disable-features. The address bar
// popups are added: two hidden pages per window that used a fifth of the CPU.
const DISABLED_FEATURES = ['WebUIOmniboxPopup', 'WebUIOmniboxAimPopup', 'AimEnabled', 'DestroyProfileOnBrowserClose', 'HttpsUpgrades', 'LensOverlay', 'NetworkTimeServiceQuerying', 'OptimizationHints', 'PaintHolding', 'PreconnectToSearch'];

// Uses the installed browser; nothing is downloaded.
export default defineConfig({
  testDir: 'tests/browser',
  // The test on a real cluster takes longest, so it starts first. The others have no endless animations, which would paint
  // sixty times per second for as long as a test waits; those about the cost of a page ask for them.
  projects: [{ name: 'real cluster', testMatch: 'real/*.spec.ts' }, { name: 'simulated cluster', testMatch: /browser\/[^/]+\.spec\.ts$/, use: { contextOptions: { reducedMotion: 'reduce' } } }],
  workers: 2,
  fullyParallel: true,
  timeout: 60_000,
  expect: { timeout: 15_000 },
  reporter: 'list',
  outputDir: 'test-results',
  use: {
    browserName: 'chromium',
    launchOptions: { executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', `--disable-features=${DISABLED_FEATURES.join(',')}`] },
    viewport: { width: 1440, height: 900 },
    timezoneId: 'Europe/Berlin',
    locale: 'en-GB',
  },
});
