// What a view shows of REST: loaded once for a key, loaded again when the key changes, and never shown under a key that
// it was not asked for. A list is loaded page by page as it is scrolled.
import { untrack } from 'svelte';
import { ApiError } from './api';
import type { Page } from './types';

export class Resource<T> {
  value = $state.raw<T | null>(null);
  error = $state.raw<ApiError | null>(null);
  loading = $state(false);
  private asked = 0;

  constructor(private readonly load: () => Promise<T>) {}

  async refresh(options: { clear?: boolean } = {}): Promise<void> {
    const ask = ++this.asked;
    if (options.clear) this.value = null;
    this.loading = true;
    try {
      const value = await this.load();
      if (ask !== this.asked) return;
      this.value = value;
      this.error = null;
    } catch (error) {
      if (ask !== this.asked) return;
      this.error = asApiError(error);
    } finally {
      if (ask === this.asked) this.loading = false;
    }
  }
}

export class Pages<T> {
  /** A raw array: a page of rows is appended, rows are never made reactive one by one. */
  rows = $state.raw<T[]>([]);
  error = $state.raw<ApiError | null>(null);
  loading = $state(false);
  /** Whether the first page has come. */
  ready = $state(false);
  private cursor: string | null = null;
  private ended = $state(false);
  private asked = 0;

  constructor(private readonly load: (cursor: string | null) => Promise<Page<T>>) {}

  get complete(): boolean {
    return this.ended;
  }

  /** Another number with each beginning anew. */
  get round(): number {
    return this.asked;
  }

  async restart(): Promise<void> {
    this.asked += 1;
    this.cursor = null;
    this.ended = false;
    this.ready = false;
    this.loading = false;
    this.rows = [];
    await this.more();
  }

  async more(): Promise<void> {
    // Whoever calls this from an effect does not want to be called again for what it changes.
    if (untrack(() => this.ended || this.loading)) return;
    const ask = this.asked;
    this.loading = true;
    try {
      const page = await this.load(this.cursor);
      if (ask !== this.asked) return;
      this.rows = this.cursor === null ? page.items : this.rows.concat(page.items);
      this.cursor = page.next_cursor;
      this.ended = page.next_cursor === null;
      this.ready = true;
      this.error = null;
    } catch (error) {
      if (ask === this.asked) this.error = asApiError(error);
    } finally {
      if (ask === this.asked) this.loading = false;
    }
  }

  /** Everything, for lists that are bounded by nature. */
  async all(most: number): Promise<void> {
    const first = this.restart();
    const ask = this.asked;
    await first;
    // After the first page: nothing here is read by an effect. Whoever begins anew goes on alone: to wait here for what
    // he has asked for would be to wait without giving way.
    while (ask === this.asked && !this.ended && this.error === null && this.rows.length < most) await this.more();
  }

  /** Begin again with a first page that was asked for elsewhere. */
  begin(page: Page<T>): void {
    this.asked += 1;
    this.loading = false;
    this.rows = page.items;
    this.cursor = page.next_cursor;
    this.ended = page.next_cursor === null;
  }

  replace(rows: T[]): void {
    this.rows = rows;
  }
}

function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  throw error;
}
