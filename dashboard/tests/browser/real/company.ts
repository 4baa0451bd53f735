// The nightly jobs of a company: about 150 jobs with chains, limits and calendars, of which some fail, wait, are slow or
// write long logs. It is what `make shots` photographs.
import type { Cluster } from './cluster';

type Job = Record<string, unknown> & { name: string };

const TZ = 'Europe/Berlin';
const REGIONS = ['de', 'fr', 'es', 'it', 'pl', 'nl', 'se', 'uk'];
const SHOPS = ['web', 'app', 'marketplace', 'outlet'];
const WAREHOUSES = ['hamburg', 'lyon', 'madrid', 'wroclaw', 'leeds'];
const TABLES = ['orders', 'order-lines', 'customers', 'products', 'prices', 'stock', 'shipments', 'returns', 'payments', 'invoices', 'suppliers', 'contracts'];
const BACKED_UP = ['shop', 'erp', 'crm', 'warehouse', 'identity', 'wiki', 'mail', 'metrics'];

const LIMITS = {
  warehouse: { limit: 1, description: 'Connections that the data warehouse allows for loading' },
  'erp-api': { limit: 1, rate: '60/m', burst: 5, description: 'The ERP refuses more than one session' },
  'mail-gateway': { rate: '100/m', burst: 20, description: 'Contract with the mail provider' },
  'payment-provider': { limit: 4, description: 'Agreed with the payment provider' },
};

const CALENDARS = {
  'de-holidays': {
    description: 'Public holidays in all of Germany', tz: TZ,
    days: [{ day: '01-01', name: 'New Year' }, { day: '05-01', name: 'Labour Day' }, { day: '10-03', name: 'Day of German Unity' }, { day: '12-25', name: 'Christmas Day' }, { day: '12-26', name: 'Second Day of Christmas' }],
  },
  'year-end-freeze': { description: 'No changes to the books', days: [{ first: '2026-12-21', last: '2027-01-03', name: 'Year-end freeze' }, { first: '2027-12-20', last: '2028-01-02', name: 'Year-end freeze' }] },
};

const sleep = (seconds: string, text: string) => ({ shell: `echo "${text}"; sleep ${seconds}; echo done` });
const daily = (minute: number, hour: number, more: Record<string, unknown> = {}) => ({ cron: `${minute} ${hour} * * *`, tz: TZ, ...more });

function nightly(): Job[] {
  const jobs: Job[] = [];
  const run = (text: string) => sleep('0.2', text);
  for (const [i, table] of TABLES.entries()) {
    jobs.push({ name: `extract-${table}`, description: `Copies new ${table} from the shop database`, schedule: daily(0, 1 + (i % 2)), run: run(`copying ${table}`), concurrency: 'erp-api', labels: { team: 'data', tier: i < 4 ? 'gold' : 'silver' } });
    jobs.push({ name: `load-${table}`, description: `Loads ${table} into the data warehouse`, after: `extract-${table}`, run: run(`loading ${table}`), concurrency: 'warehouse', labels: { team: 'data' } });
    jobs.push({ name: `check-${table}`, description: `Compares the counts of ${table}`, after: { job: `load-${table}`, on: 'ended' }, run: run(`comparing ${table}`), labels: { team: 'data-quality' } });
  }
  for (const region of REGIONS) {
    jobs.push({ name: `revenue-${region}`, description: `Adds up revenue of ${region.toUpperCase()}`, after: ['load-orders', 'load-payments', 'load-returns'], run: run(`revenue of ${region}`), labels: { team: 'finance', region } });
    jobs.push({ name: `vat-report-${region}`, description: `Prepares the VAT report of ${region.toUpperCase()}`, schedule: { cron: '30 6 * * *', tz: TZ, business_day: 3, calendars: ['de-holidays'] }, run: run(`VAT of ${region}`), labels: { team: 'finance', region } });
    jobs.push({ name: `price-feed-${region}`, description: `Sends the price list of ${region.toUpperCase()} to partners`, schedule: daily(0, 5), run: run(`prices of ${region}`), labels: { team: 'pricing', region } });
  }
  jobs.push({ name: 'revenue-group', description: 'Adds up the revenue of all regions', after: REGIONS.map((region) => `revenue-${region}`), run: run('revenue of the group'), labels: { team: 'finance', tier: 'gold' } });
  jobs.push({ name: 'board-report', description: 'Renders the daily report for the board', after: 'revenue-group', run: run('rendering'), labels: { team: 'finance', tier: 'gold' } });
  jobs.push({ name: 'board-report-failed', description: 'Tells the finance channel that there is no report', after: { job: 'revenue-group', on: 'failed' }, run: run('posting a message'), labels: { team: 'finance' } });
  for (const shop of SHOPS) {
    jobs.push({ name: `sitemap-${shop}`, description: `Writes the sitemap of the ${shop} shop`, schedule: daily(0, 4), run: run(`sitemap of ${shop}`), labels: { team: 'web' } });
    jobs.push({ name: `search-index-${shop}`, description: `Builds the search index of the ${shop} shop`, after: ['load-products', 'load-prices', 'load-stock'], run: run(`index of ${shop}`), labels: { team: 'web', tier: 'gold' } });
    jobs.push({ name: `recommendations-${shop}`, description: `Trains recommendations for the ${shop} shop`, after: `search-index-${shop}`, run: run(`training for ${shop}`), require: { gpu: 'a100' }, labels: { team: 'science' } });
    jobs.push({ name: `abandoned-carts-${shop}`, description: `Mails customers who left a full cart in the ${shop} shop`, schedule: daily(0, 18), run: run(`carts of ${shop}`), concurrency: 'mail-gateway', labels: { team: 'marketing' } });
  }
  for (const [i, site] of WAREHOUSES.entries()) {
    jobs.push({ name: `stock-count-${site}`, description: `Imports the stock count of ${site}`, schedule: daily(0, 3), run: run(`stock of ${site}`), labels: { team: 'logistics', site } });
    jobs.push({ name: `pick-lists-${site}`, description: `Prints pick lists in ${site}`, schedule: { cron: `${i * 5} 5,13 * * mon-sat`, tz: TZ }, run: run(`pick lists of ${site}`), labels: { team: 'logistics', site } });
    jobs.push({ name: `carrier-labels-${site}`, description: `Fetches parcel labels for ${site}`, schedule: daily(0, 4), run: run(`labels for ${site}`), labels: { team: 'logistics', site } });
    jobs.push({ name: `reorder-${site}`, description: `Orders what runs out in ${site}`, after: `stock-count-${site}`, run: run(`reordering for ${site}`), labels: { team: 'logistics', site } });
  }
  for (const system of BACKED_UP) {
    jobs.push({ name: `backup-${system}`, description: `Backs up ${system}`, schedule: daily(0, 2), run: run(`backing up ${system}`), labels: { team: 'platform', tier: 'gold' } });
    jobs.push({ name: `verify-backup-${system}`, description: `Restores the backup of ${system} and compares checksums`, after: `backup-${system}`, run: run(`restoring ${system}`), labels: { team: 'platform' } });
    jobs.push({ name: `rotate-logs-${system}`, description: `Compresses and deletes old logs of ${system}`, schedule: daily(0, 0), run: run(`logs of ${system}`), labels: { team: 'platform' } });
  }
  jobs.push({ name: 'close-month', description: 'Closes the books of the month', schedule: { cron: '0 20 * * *', tz: TZ, business_day: 'last', calendars: ['de-holidays', 'year-end-freeze'] }, run: run('closing'), labels: { team: 'finance', tier: 'gold' } });
  jobs.push({ name: 'payroll-export', description: 'Hands the hours worked to the payroll office', schedule: { cron: '0 8 * * mon-fri', tz: TZ, calendars: ['de-holidays'] }, run: run('exporting hours'), labels: { team: 'people' } });
  jobs.push({ name: 'sanctions-list', description: 'Compares customers with the sanctions list', schedule: daily(15, 3), run: run('comparing customers'), labels: { team: 'compliance', tier: 'gold' } });
  jobs.push({ name: 'tokyo-settlement', description: 'Settles card payments of the Tokyo branch', schedule: { cron: '30 6 * * mon-fri', tz: 'Asia/Tokyo' }, run: run('settling'), labels: { team: 'finance', region: 'jp' } });
  jobs.push({ name: 'forecast-demand', description: 'Trains the demand forecast', schedule: { cron: '0 23 * * sun', tz: TZ }, run: run('training'), require: { gpu: 'a100' }, labels: { team: 'science' } });
  return jobs;
}

/** Jobs that run all day, so that a few minutes have something to look at. */
function daytime(): Job[] {
  return [
    { name: 'import-orders', description: 'Fetches new orders of all shops', schedule: { every: '5s' }, run: { shell: 'for shop in web app marketplace outlet; do echo "$shop: $(($(date +%s) % 40 + 3)) new orders"; sleep 0.1; done' }, overlap: 'queue', labels: { team: 'orders', tier: 'gold' } },
    { name: 'sync-stock', description: 'Copies stock levels to the shops', schedule: { every: '10s' }, run: sleep('0.6', 'copying 18,402 stock levels'), overlap: 'queue', labels: { team: 'logistics' } },
    { name: 'capture-payments', description: 'Captures authorised card payments', schedule: { every: '8s' }, run: sleep('0.3', 'capturing 31 payments'), overlap: 'queue', concurrency: 'payment-provider', labels: { team: 'payments', tier: 'gold' } },
    { name: 'exchange-rates', description: 'Fetches exchange rates; the first attempt often times out', schedule: { every: '15s' }, run: { shell: 'if [ "$RETRY_COUNT" -lt 1 ]; then echo "GET /latest: 504 Gateway Timeout" >&2; exit 1; fi; echo "31 currencies"' }, retry: { delays: ['1s', '5s'] }, overlap: 'queue', labels: { team: 'finance' } },
    { name: 'courier-tracking', description: 'Asks couriers where parcels are', schedule: { every: '20s' }, run: { shell: 'parcel=$(date +%s%3N); echo "asking about parcel $parcel"; echo "courier answered HTTP 503 for parcel $parcel after $((parcel % 900 + 100)) ms" >&2; exit 3' }, retry: { max: 0 }, labels: { team: 'logistics' } },
    { name: 'supplier-edi', description: 'Reads supplier messages from the EDI mailbox', schedule: { every: '30s' }, run: { shell: 'echo "message $$: segment UNH is missing" >&2; exit 65' }, retry: { max: 1, initial: '1s' }, labels: { team: 'purchasing' } },
    { name: 'fraud-scores', description: 'Scores new orders with the fraud model', schedule: { every: '20s' }, run: sleep('0.2', 'scoring'), require: { gpu: 'a100' }, overlap: 'queue', labels: { team: 'science', tier: 'gold' } },
    { name: 'rebuild-catalogue', description: 'Renders all product pages; takes minutes', schedule: { every: '4m' }, run: { shell: 'for n in $(seq 1 150); do echo "rendered $((n * 320)) of 48,000 pages"; sleep 1; done' }, labels: { team: 'web' } },
    { name: 'audit-trail', description: 'Ships the audit trail; writes long lines', schedule: { every: '12s' }, run: { shell: 'for n in $(seq 1 25); do echo "shipped batch $n to s3://audit-archive/eu-central-1/$(date +%Y/%m/%d)/shop-web/part-$$.parquet (checksum $(date +%N), 4,096 entries, offset $((n * 4096)))"; done; echo "3 entries without a user id" >&2' }, overlap: 'queue', labels: { team: 'compliance' } },
    { name: 'newsletter', description: 'Sends the newsletter in portions', schedule: { every: '6s' }, run: sleep('0.2', '250 mails'), concurrency: 'mail-gateway', overlap: 'allow', labels: { team: 'marketing' } },
    { name: 'warehouse-snapshots', description: 'Takes snapshots of the data warehouse', schedule: { every: '40s' }, run: sleep('20', 'taking a snapshot'), concurrency: 'warehouse', overlap: 'allow', labels: { team: 'data' } },
    { name: 'warehouse-vacuum', description: 'Frees space in the data warehouse', schedule: { every: '40s' }, run: sleep('18', 'freeing space'), concurrency: 'warehouse', overlap: 'allow', labels: { team: 'data' } },
    { name: 'heartbeat', description: 'Runs every second, to show that nothing is missed', schedule: { every: '1s' }, run: { shell: 'true' }, overlap: 'queue', retry: { max: 0 }, labels: { team: 'platform' } },
    { name: 'clean-temp', description: 'Deletes temporary files', schedule: daily(0, 1), run: { shell: 'true' }, labels: { team: 'platform' } },
    { name: 'legacy-ftp', description: 'Uploads to the old partner server', schedule: daily(45, 2), run: sleep('0.2', 'uploading'), labels: { team: 'purchasing' } },
  ];
}

/** The job file with which the cluster starts: nodes run the Python jobs of their file alone. The other jobs need limits and
 *  calendars. */
export const FIRST_JOBS = JSON.stringify({
  jobs: [
    { name: 'refund-customers', description: 'Pays refunds that support has approved; asks for the order', run: { python: 'invoices:refund', args: { order: '', amount: 0, currency: 'EUR', reasons: ['damaged'] } }, retry: { max: 0 }, labels: { team: 'payments' } },
  ],
});

/** Creates the company in a cluster and lets failures, a backfill and a pause happen. */
export async function foundCompany(cluster: Cluster): Promise<void> {
  for (const [name, limit] of Object.entries(LIMITS)) await cluster.request('PUT', `/limits/${name}`, limit);
  for (const [name, calendar] of Object.entries(CALENDARS)) await cluster.request('PUT', `/calendars/${name}`, calendar);
  for (const [name, role] of Object.entries({ ada: 'admin', linus: 'editor', grace: 'operator', margaret: 'viewer' })) await cluster.request('POST', '/users', { name, role, password: 'only for these pictures' });
  await cluster.request('POST', '/api-keys', { name: 'ci-deploy', role: 'editor', jobs: ['load-*', 'extract-*'] });
  await cluster.request('POST', '/api-keys', { name: 'grafana', role: 'viewer' });
  for (const name of ['ERP_PASSWORD', 'HOOKS', 'S3_KEY']) await cluster.request('POST', '/secrets', { name, value: 'only for these pictures' });
  await cluster.request('POST', '/alerts', { name: 'finance', on: ['failed', 'recovered', 'late'], jobs: ['revenue-*', 'close-month'], webhook: { url: 'https://hooks.example.com/cronflow', secret: '${secret:HOOKS}' }, late_after: '10m' });
  await cluster.request('POST', '/alerts', { name: 'logistics', on: ['failed'], jobs: ['courier-*', 'stock-*'], webhook: { url: 'https://hooks.example.com/logistics' } });
  await cluster.request('POST', '/jobs/apply', { jobs: [...nightly(), ...daytime()] });
  const day = (ago: number) => new Date(Date.now() - ago * 86_400_000).toISOString();
  await cluster.request('POST', '/jobs/backup-shop/backfill', { first: day(40), last: day(0), only: 'all' });
  await cluster.request('POST', '/jobs/sanctions-list/backfill', { first: day(200), last: day(0), only: 'all', rate: '30/m' });
  await cluster.request('POST', '/jobs/legacy-ftp/pause', { note: 'The partner moves to another server', until: new Date(Date.now() + 3 * 86_400_000).toISOString() });
  await cluster.run('extract-orders');
  await cluster.run('extract-payments');
  await cluster.run('extract-returns');
  await cluster.run('refund-customers');
}
