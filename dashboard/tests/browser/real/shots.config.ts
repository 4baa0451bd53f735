import base from '../../../playwright.config';

// `make shots`: pictures of every view of a real cluster, for people to look at, into SHOTS or test-results/shots.
export default { ...base, testDir: '.', projects: [{ name: 'shots', testMatch: 'shots.ts' }], timeout: 600_000 };
