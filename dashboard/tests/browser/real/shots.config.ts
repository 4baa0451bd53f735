import base from '../../../playwright.config';

// `make shots`: screenshots of every view of a real cluster, in SHOTS or test-results/shots.
export default { ...base, testDir: '.', projects: [{ name: 'shots', testMatch: 'shots.ts' }], timeout: 1_800_000 };
