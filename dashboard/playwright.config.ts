import { defineConfig } from '@playwright/test';

// The list of Playwright, as far as it matters here, since a browser heeds the last such list alone; and the popups of the
// address bar, two pages of their own for each window, which nobody sees: they took a fifth of the processor.
const WITHOUT = ['WebUIOmniboxPopup', 'WebUIOmniboxAimPopup', 'AimEnabled', 'DestroyProfileOnBrowserClose', 'HttpsUpgrades', 'LensOverlay', 'NetworkTimeServiceQuerying', 'OptimizationHints', 'PaintHolding', 'PreconnectToSearch'];

// The system's own browser: nothing is downloaded.
export default defineConfig({
  testDir: 'tests/browser',
  // The story on the real cluster is the longest: it begins first, and the others run beside it.
  projects: [{ name: 'real cluster', testMatch: 'real/*.spec.ts' }, { name: 'made-up cluster', testMatch: 'page.spec.ts' }],
  workers: 2,
  fullyParallel: true,
  timeout: 60_000,
  expect: { timeout: 15_000 },
  reporter: 'list',
  outputDir: 'test-results',
  use: {
    browserName: 'chromium',
    launchOptions: { executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', `--disable-features=${WITHOUT.join(',')}`] },
    viewport: { width: 1440, height: 900 },
    timezoneId: 'Europe/Berlin',
    locale: 'en-GB',
  },
});
