import { defineConfig } from '@playwright/test';

// Playwright's own list, as far as it matters here, because Chromium uses only the last --disable-features. The address bar
// popups are added: two hidden pages per window that used a fifth of the CPU.
const DISABLED_FEATURES = ['WebUIOmniboxPopup', 'WebUIOmniboxAimPopup', 'AimEnabled', 'DestroyProfileOnBrowserClose', 'HttpsUpgrades', 'LensOverlay', 'NetworkTimeServiceQuerying', 'OptimizationHints', 'PaintHolding', 'PreconnectToSearch'];
/** Resolves to this machine in both browsers. It is not a secure context, as most hosts in a company's network. */
const HOST = 'cronflow.test';

const chromium = {
  browserName: 'chromium' as const,
  launchOptions: { executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', `--disable-features=${DISABLED_FEATURES.join(',')}`, `--host-resolver-rules=MAP ${HOST} 127.0.0.1`] },
};
// A Firefox as it is released, over WebDriver BiDi. Playwright 1.65 sends it a command that Firefox 153 ESR does not have.
const firefox = {
  browserName: 'firefox' as const,
  channel: 'moz-firefox',
  launchOptions: { executablePath: process.env.FIREFOX ?? '/usr/bin/firefox-esr', firefoxUserPrefs: { 'network.dns.localDomains': HOST } },
};
const SIMULATED = /browser\/[^/]+\.spec\.ts$/;
/** Everything, which takes long; otherwise without tests that are marked for it. */
const PROVE = process.env.PROVE !== undefined;
/** What runs in Firefox otherwise: logging in, a live log, and copying. */
const ABOUT_BROWSERS = /logging in|followed live|copied|the console/;
/** Without endless animations, which would paint sixty times per second for as long as a test waits. */
const still = { contextOptions: { reducedMotion: 'reduce' as const } };

// Uses the installed browsers; nothing is downloaded.
export default defineConfig({
  testDir: 'tests/browser',
  grepInvert: PROVE ? [] : /@prove/,
  // The tests on real clusters take longest, so they start first. Those about the cost of a page ask for animations.
  projects: [
    { name: 'real cluster', testMatch: 'real/*.spec.ts' },
    { name: 'real cluster, Firefox', testMatch: 'real/*.spec.ts', grep: PROVE ? /./ : ABOUT_BROWSERS, use: firefox },
    { name: 'simulated cluster', testMatch: SIMULATED, use: still },
    { name: 'simulated cluster, Firefox', testMatch: SIMULATED, use: { ...firefox, ...still } }, // only by name
  ],
  workers: 2,
  fullyParallel: true,
  timeout: 60_000,
  expect: { timeout: 15_000 },
  reporter: 'list',
  outputDir: 'test-results',
  use: {
    ...chromium,
    viewport: { width: 1440, height: 900 },
    timezoneId: 'Europe/Berlin',
    locale: 'en-GB',
  },
});
