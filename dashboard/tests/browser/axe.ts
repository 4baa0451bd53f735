// The axe violations of a page, one line each.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from '@playwright/test';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const RULES = { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] };
/** Themes differ in their colours alone, so in the second one only the rules about colours are checked. */
const COLOURS = { type: 'rule', values: ['color-contrast', 'link-in-text-block'] };

interface Violation {
  id: string;
  nodes: { html: string; failureSummary: string }[];
}

/** Checks both themes; with a dialog open, only the present one. */
export async function axe(page: Page, view: string, { switches = true } = {}): Promise<string[]> {
  // Colours are wrong during the transition between themes.
  await page.evaluate(() => {
    const style = new CSSStyleSheet();
    style.replaceSync('*, *::before, *::after { transition: none !important }');
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, style];
  });
  await page.evaluate(AXE);
  const found: string[] = [];
  for (let i = 0; i < (switches ? 2 : 1); i++) {
    const theme = await page.evaluate(() => document.documentElement.dataset.theme);
    const violations = (await page.evaluate(
      async (rules) => (await (window as unknown as { axe: { run: (options: unknown) => Promise<{ violations: unknown[] }> } }).axe.run({ runOnly: rules, resultTypes: ['violations'] })).violations,
      i === 0 ? RULES : COLOURS,
    )) as Violation[];
    for (const one of violations) found.push(`${view}, ${theme}: ${one.id}: ${one.nodes[0]?.html.slice(0, 200)} ${one.nodes[0]?.failureSummary.split('\n')[1] ?? ''}`);
    if (switches) await page.getByRole('button', { name: /^(Light|Dark) theme$/ }).click();
  }
  return found;
}
