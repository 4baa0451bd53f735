// Everything that overlays the views: toasts, confirmation dialogs, the palette and the help.
import { ApiError } from './api';
import type { Doc } from './document';

export interface Toast {
  id: number;
  text: string;
  tone: 'ok' | 'bad' | 'info';
  href: string | null;
  undo: (() => Promise<unknown>) | null;
}

export interface Question {
  title: string;
  body: string;
  confirm: string;
  danger: boolean;
  /** Requires a reason. */
  reason: boolean;
  /** Arguments to edit, and those that the job has itself. */
  args: { defaults: Doc; value: Doc } | null;
  /** Asks for an end, which is optional, and for a note; `open` is the choice without an end. */
  hold: { open: string; end?: string; ends?: readonly (readonly [string, number, string])[]; note?: false } | null;
}

export interface Answer {
  reason: string;
  /** The arguments, without those that the job has itself. */
  args: Doc;
  note: string;
  until: string | null;
}

class Ui {
  toasts = $state.raw<Toast[]>([]);
  question = $state.raw<Question | null>(null);
  palette = $state(false);
  help = $state(false);
  menu = $state(false);
  /** The failover that the ring replays. */
  replay = $state.raw<{ from: string | null; to: string } | null>(null);
  private answer: ((answer: Answer | null) => void) | null = null;
  private count = 0;

  toast(text: string, options: Partial<Omit<Toast, 'id' | 'text'>> = {}): void {
    const toast: Toast = { id: ++this.count, text, tone: 'ok', href: null, undo: null, ...options };
    this.toasts = [...this.toasts.slice(-3), toast];
    setTimeout(() => this.dismiss(toast.id), toast.tone === 'bad' ? 9000 : 6000);
  }

  dismiss(id: number): void {
    this.toasts = this.toasts.filter((toast) => toast.id !== id);
  }

  confirm(question: Partial<Question> & Pick<Question, 'title' | 'confirm'>): Promise<Answer | null> {
    this.answer?.(null);
    this.question = { body: '', danger: false, reason: false, args: null, hold: null, ...question };
    return new Promise((resolve) => {
      this.answer = resolve;
    });
  }

  answerWith(answer: Answer | null): void {
    this.question = null;
    this.answer?.(answer);
    this.answer = null;
  }

  /** Does something that may fail. An error is shown as a toast, and the result is null. */
  async attempt<T>(work: () => Promise<T>): Promise<T | null> {
    try {
      return await work();
    } catch (error) {
      this.report(error);
      return null;
    }
  }

  /** Shows an error as a toast; one that the server did not send is a defect of the page and goes to the console as well. */
  report(error: unknown): void {
    if (!(error instanceof ApiError)) console.error(error);
    this.toast(error instanceof ApiError ? error.message : `This page failed: ${error instanceof Error ? error.message : String(error)}`, { tone: 'bad' });
  }
}

export const ui = new Ui();
