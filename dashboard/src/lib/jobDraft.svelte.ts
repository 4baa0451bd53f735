// A job that is being edited: its YAML and its document, which stay in step, what the server would refuse, the plan of
// the change, and the save, which fails if somebody else has changed the job in the meantime.
import { ApiError } from './api';
import { getAt, isDoc, isWithin, merge, pathOf, placeOf, same, setAt, type Doc, type Path } from './document';
import { definitionOf, shorten } from './jobSchema';
import { lineOf, parse, rewrite, write, type SyntaxProblem } from './jobYaml';
import { store } from './store.svelte';
import type { Applied, InputProblem, Job, Json, Preview } from './types';
import { ui } from './ui.svelte';

const CHECK_AFTER_MS = 400;
const FIRES = 5;

/** What somebody else saved in the meantime. */
export interface Conflict {
  job: Job;
  document: Doc;
  by: string | null;
  at: string;
}

export class JobDraft {
  text = $state('');
  /** The last valid document of the text. */
  document = $state.raw<Doc>({});
  syntax = $state.raw<SyntaxProblem | null>(null);
  problems = $state.raw<InputProblem[]>([]);
  plan = $state.raw<Applied | null>(null);
  preview = $state.raw<Preview | null>(null);
  days = $state(7);
  /** Why there is no plan, although the job may be valid. */
  failure = $state.raw<ApiError | null>(null);
  checking = $state(false);
  saving = $state(false);
  conflict = $state.raw<Conflict | null>(null);
  /** The places that both changed in a conflict; the draft has our values. */
  kept = $state.raw<string[]>([]);
  /** Problems of a new job are shown when their field was edited, or all after an attempt to save. */
  private showAll = $state(false);
  private touched = $state.raw<ReadonlySet<string>>(new Set());
  base = $state.raw<Doc>({});
  version = $state(0);
  private baseText = $state('');
  private timer: ReturnType<typeof setTimeout> | undefined;
  private generation = 0;

  readonly dirty = $derived(this.syntax !== null ? this.text !== this.baseText : !same(this.document, this.base));
  readonly shown = $derived(this.problems.filter((one) => this.isShown(one.place)));

  private constructor(
    /** The job that is edited; null: a new one. */
    readonly name: string | null,
  ) {}

  static edit(job: Job): JobDraft {
    const draft = new JobDraft(job.name);
    draft.rebaseOn(shorten(definitionOf(job)), job.version);
    draft.replace(draft.base);
    draft.showAll = true;
    return draft;
  }

  /** `start` has the keys that a new job begins with. */
  static create(start: Doc): JobDraft {
    const draft = new JobDraft(null);
    draft.rebaseOn(start, 0);
    draft.replace(start);
    return draft;
  }

  private rebaseOn(document: Doc, version: number): void {
    this.base = document;
    this.baseText = write(document);
    this.version = version;
  }

  // ------------------------------------------------------------------------------------------------------- editing

  private replace(document: Doc): void {
    this.text = write(document);
    this.document = document;
    this.syntax = null;
    this.checkSoon(0);
  }

  get(path: Path): Json | undefined {
    return getAt(this.document, path);
  }

  /** From the form; undefined removes the key. */
  set(path: Path, value: Json | undefined): void {
    if (this.syntax !== null) return;
    const document = setAt(this.document, path, value) as Doc;
    this.touched = new Set(this.touched).add(placeOf(path));
    this.document = document;
    this.text = rewrite(this.text, document);
    this.checkSoon();
  }

  /** From the YAML. */
  write(text: string): void {
    this.text = text;
    this.showAll = true;
    const { document, problem } = parse(text);
    this.syntax = problem;
    if (document !== null) this.document = document;
    this.checkSoon();
  }

  reset(): void {
    this.kept = [];
    this.replace(this.base);
  }

  // ------------------------------------------------------------------------------------------------------ checking

  private isShown(place: string): boolean {
    return this.showAll || place === '' || [...this.touched].some((one) => isWithin(place, one) || isWithin(one, place));
  }

  /** The problems of a field; `deep`: also those of the fields within it. */
  problemsAt(place: string, deep: boolean): InputProblem[] {
    return this.shown.filter((one) => (deep ? isWithin(one.place, place) : one.place === place));
  }

  /** Messages by line of the YAML. */
  get lines(): Map<number, string> {
    if (this.syntax !== null) return new Map([[this.syntax.line, this.syntax.what]]);
    return new Map(this.shown.map((one) => [lineOf(this.text, pathOf(this.document, one.place)), sentence(one)]));
  }

  checkSoon(ms = CHECK_AFTER_MS): void {
    clearTimeout(this.timer);
    this.checking = true;
    this.timer = setTimeout(() => void this.check(), ms);
  }

  async check(): Promise<boolean> {
    clearTimeout(this.timer);
    const generation = ++this.generation;
    const document = this.document;
    const local = this.localProblems();
    if (local.length > 0) {
      this.refuse(local);
      this.checking = false;
      return false;
    }
    this.checking = true;
    try {
      const planned = await store.api.post('/jobs/plan', { params: { query: { days: this.days } }, body: { jobs: [document as never] } });
      const preview = await previewOf(document);
      if (generation !== this.generation) return false;
      const plan = planned.jobs[0] ?? null;
      if (this.name === null && plan !== null && plan.result !== 'created') {
        this.refuse([exists(plan.name)]);
        return false;
      }
      [this.plan, this.preview, this.problems, this.failure] = [plan, preview, [], null];
      return true;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (generation === this.generation) this.fail(error);
      return false;
    } finally {
      if (generation === this.generation) this.checking = false;
    }
  }

  private localProblems(): InputProblem[] {
    if (this.syntax !== null) return [{ place: '', what: `line ${this.syntax.line}: ${this.syntax.what}`, remedy: 'correct the YAML' }];
    if (this.name !== null && this.document.name !== this.name) return [{ place: 'name', what: `a job cannot be renamed; this one is ${this.name}`, remedy: 'duplicate it under the new name, and delete this one' }];
    return [];
  }

  private refuse(problems: InputProblem[]): void {
    [this.problems, this.plan, this.preview, this.failure] = [problems, null, null, null];
  }

  private fail(error: ApiError): void {
    const errors = error.problem.errors ?? [];
    if (error.status === 422 && errors.length > 0) this.refuse(errors.map((one) => ({ ...one, place: one.place.replace(/^jobs\[0\]\.?/, '') })));
    else [this.plan, this.failure] = [null, error];
  }

  // -------------------------------------------------------------------------------------------------------- saving

  /** The stored job, or null if it was not saved: the draft shows why. */
  async save(): Promise<Job | null> {
    this.showAll = true;
    const local = this.localProblems();
    if (local.length > 0) {
      this.refuse(local);
      return null;
    }
    this.saving = true;
    try {
      const body = this.document as never;
      const job =
        this.name === null
          ? await store.api.post('/jobs', { body })
          : await store.api.put('/jobs/{name}', { params: { path: { name: this.name }, header: { 'if-match': `"${this.version}"` } }, body });
      this.rebaseOn(this.document, job.version);
      return job as Job;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.status === 409 && this.name !== null) await ui.attempt(() => this.findConflict());
      else if (error.status === 409) this.refuse([exists(String(this.document.name))]);
      else if (error.status === 422) this.fail(error);
      if (this.conflict === null && this.problems.length === 0) ui.toast(error.message, { tone: 'bad' });
      return null;
    } finally {
      this.saving = false;
    }
  }

  /** Checks whether somebody else has changed the job. */
  async findConflict(): Promise<void> {
    if (this.name === null) return;
    const job = (await store.api.get('/jobs/{name}', { params: { path: { name: this.name } } })) as Job;
    if (job.version === this.version) return;
    const document = shorten(definitionOf(job));
    if (same(document, this.base)) {
      // Only its state changed, such as a pause.
      this.version = job.version;
      return;
    }
    this.conflict = { job, document, by: await lastAuthor(this.name), at: job.updated_at };
  }

  /** Applies our changes to what the other person saved. */
  rebase(): void {
    if (this.conflict === null) return;
    const { document, conflicts } = merge(this.base, this.document, this.conflict.document);
    this.rebaseOn(this.conflict.document, this.conflict.job.version);
    this.conflict = null;
    this.kept = conflicts;
    this.replace(document);
  }

  discard(): void {
    if (this.conflict === null) return;
    this.rebaseOn(this.conflict.document, this.conflict.job.version);
    this.conflict = null;
    this.reset();
  }

  close(): void {
    clearTimeout(this.timer);
    this.generation++;
  }
}

export function sentence({ what, remedy }: InputProblem): string {
  return remedy === '' ? what : `${what} (${remedy})`;
}

function exists(name: string): InputProblem {
  return { place: 'name', what: `job ${name} already exists`, remedy: 'choose another name, or edit that job' };
}

async function lastAuthor(name: string): Promise<string | null> {
  const { items } = await store.api.get('/jobs/{name}/history', { params: { path: { name } } });
  return items.at(-1)?.by ?? null;
}

/** The schedule in words with its next fires; null without one. */
async function previewOf({ schedule }: Doc): Promise<Preview | null> {
  if (!isDoc(schedule)) return null;
  return store.api.post('/schedules/preview', { body: { schedule: schedule as never, count: FIRES } });
}
