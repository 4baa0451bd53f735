import base from '../../playwright.config';

// `npm run shots`: pictures of every view for people to look at, into SHOTS or test-results/shots.
export default { ...base, testDir: '.', testMatch: 'shots.ts', timeout: 120_000 };
