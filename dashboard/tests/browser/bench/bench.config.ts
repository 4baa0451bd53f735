import base from '../../../playwright.config';

// `make bench-ui`: what a tick costs the browser on a simulated cluster of 100 nodes. It prints numbers and asserts nothing.
export default { ...base, testDir: '.', projects: [{ name: 'bench', testMatch: 'bench.ts' }], timeout: 1_800_000 };
