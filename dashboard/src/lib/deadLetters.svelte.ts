// Open dead letters, newest first. They are loaded page by page once. From then on the page requests their ids, which show
// what is new and what is gone, and only the new ones in full.
import { ApiError } from './api';
import { store } from './store.svelte';
import type { Page, RunSummary } from './types';

const MOST = 2000;
const PAGE = 500;
/** The server selects at most this many runs by id. */
const BATCH = 100;
/** With more new ones than this, loading pages is cheaper. */
const MOST_NEW = 500;

/** Where the dead letters come from. */
export interface Source {
  page: (cursor: string | null) => Promise<Page<RunSummary>>;
  ids: () => Promise<readonly string[]>;
  /** Those of these runs that are still dead letters. */
  runs: (ids: readonly string[]) => Promise<readonly RunSummary[]>;
}

const API: Source = {
  page: (cursor) => store.api.get('/runs', { params: { query: { dead: true, brief: true, cursor, limit: PAGE } } }),
  ids: async () => (await store.api.get('/runs/dead-letters', { params: { query: { limit: MOST } } })).ids,
  runs: async (ids) => (await store.api.get('/runs', { params: { query: { id: [...ids], dead: true, brief: true, limit: BATCH } } })).items,
};

export class DeadLetters {
  rows = $state.raw<readonly RunSummary[]>([]);
  error = $state.raw<ApiError | null>(null);
  /** Whether the first page is loaded. */
  ready = $state(false);
  /** Whether all pages are loaded, up to the limit. */
  complete = $state(false);
  private loading = false;
  private again = false;
  /** What was removed while a request was under way, whose response may still have it. */
  private readonly removed = new Set<string>();

  constructor(private readonly source: Source = API) {}

  /** Loads what has changed. A call during another one makes that one load once more. */
  async load(): Promise<void> {
    this.again = this.loading;
    if (this.loading) return;
    this.loading = true;
    try {
      do {
        this.again = false;
        this.removed.clear();
        await (this.complete ? this.update() : this.loadPages());
        this.error = null;
      } while (this.again);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.error = error;
    } finally {
      this.loading = false;
    }
  }

  /** Removes dead letters that were replayed or acknowledged. */
  remove(ids: readonly string[]): void {
    for (const id of ids) this.removed.add(id);
    this.show(this.rows);
  }

  private async loadPages(): Promise<void> {
    const found: RunSummary[] = [];
    let cursor: string | null = null;
    do {
      const page: Page<RunSummary> = await this.source.page(cursor);
      found.push(...page.items);
      cursor = page.next_cursor;
      // The first time, each page is shown when it arrives.
      if (!this.complete) this.show(found);
      this.ready = true;
    } while (cursor !== null && found.length < MOST);
    this.show(found);
    this.complete = true;
  }

  private async update(): Promise<void> {
    const ids = await this.source.ids();
    const known = new Map(this.rows.map((run) => [run.id, run]));
    const missing = ids.filter((id) => !known.has(id));
    if (missing.length > MOST_NEW) {
      await this.loadPages();
      return;
    }
    for (let i = 0; i < missing.length; i += BATCH) {
      for (const run of await this.source.runs(missing.slice(i, i + BATCH))) known.set(run.id, run);
    }
    this.show(ids.flatMap((id) => known.get(id) ?? []));
  }

  private show(rows: readonly RunSummary[]): void {
    this.rows = this.removed.size === 0 ? [...rows] : rows.filter((run) => !this.removed.has(run.id));
  }
}
