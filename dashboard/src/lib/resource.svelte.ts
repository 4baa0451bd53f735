// REST data of a view. A response that was superseded by a newer request is ignored. Lists are loaded page by page while
// scrolling.
import { onDestroy, untrack } from 'svelte';
import { ApiError } from './api';
import type { Page } from './types';

export class Resource<T> {
  value = $state.raw<T | null>(null);
  error = $state.raw<ApiError | null>(null);
  loading = $state(false);
  private generation = 0;

  constructor(private readonly load: () => Promise<T>) {}

  async refresh(options: { clear?: boolean } = {}): Promise<void> {
    const generation = ++this.generation;
    if (options.clear) this.value = null;
    this.loading = true;
    try {
      const value = await this.load();
      if (generation !== this.generation) return;
      this.value = value;
      this.error = null;
    } catch (error) {
      if (generation !== this.generation) return;
      this.error = asApiError(error);
    } finally {
      if (generation === this.generation) this.loading = false;
    }
  }
}

export class Pages<T> {
  /** A raw array: rows are not reactive one by one. */
  rows = $state.raw<T[]>([]);
  error = $state.raw<ApiError | null>(null);
  loading = $state(false);
  /** Whether the first page is loaded. */
  ready = $state(false);
  private cursor: string | null = null;
  private ended = $state(false);
  private generation = 0;

  constructor(private readonly load: (cursor: string | null) => Promise<Page<T>>) {}

  /** Of the component that is being created: nothing more is loaded after it is destroyed. */
  static ofView<T>(load: (cursor: string | null) => Promise<Page<T>>): Pages<T> {
    const pages = new Pages(load);
    onDestroy(() => pages.stop());
    return pages;
  }

  get complete(): boolean {
    return this.ended;
  }

  /** Changes with every restart. */
  get round(): number {
    return this.generation;
  }

  async restart(): Promise<void> {
    this.generation += 1;
    this.cursor = null;
    this.ended = false;
    this.ready = false;
    this.loading = false;
    this.rows = [];
    await this.more();
  }

  async more(): Promise<void> {
    // Untracked, so that an effect that calls this does not run again when loading changes.
    if (untrack(() => this.ended || this.loading)) return;
    const generation = this.generation;
    this.loading = true;
    try {
      const page = await this.load(this.cursor);
      if (generation !== this.generation) return;
      this.rows = this.cursor === null ? page.items : this.rows.concat(page.items);
      this.cursor = page.next_cursor;
      this.ended = page.next_cursor === null;
      this.ready = true;
      this.error = null;
    } catch (error) {
      if (generation === this.generation) this.error = asApiError(error);
    } finally {
      if (generation === this.generation) this.loading = false;
    }
  }

  /** Loads all pages, up to `most` rows. */
  async all(most: number): Promise<void> {
    const first = this.restart();
    const generation = this.generation;
    await first;
    // A newer call takes over, and this one stops.
    while (generation === this.generation && !this.ended && this.error === null && this.rows.length < most) await this.more();
  }

  /** A page that is being loaded is ignored, and no other is asked for. */
  stop(): void {
    this.generation += 1;
  }

  /** Restarts with a first page that is already loaded. */
  restartWith(page: Page<T>): void {
    this.generation += 1;
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
