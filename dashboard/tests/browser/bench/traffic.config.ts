import base from '../../../playwright.config';

// `make bench-traffic` starts the cluster and calls this. It prints numbers and asserts nothing.
export default { ...base, testDir: '.', projects: [{ name: 'traffic', testMatch: 'traffic.ts' }], timeout: 3_600_000 };
