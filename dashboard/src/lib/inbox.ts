// Decodes the messages of a websocket, in the order in which they arrived: text at once, compressed ones as soon as the
// browser has decompressed them, and text after a compressed one when it is its turn.

/** What the page asks the server for; null in a browser that cannot decompress. */
export const ENCODING = 'DecompressionStream' in globalThis ? 'deflate' : null;

export class Inbox {
  private waiting = 0;
  private last: Promise<void> = Promise.resolve();

  /** `broken` is called if a message cannot be decompressed; the messages after it are not delivered. */
  constructor(
    private readonly deliver: (text: string) => void,
    private readonly broken: () => void,
  ) {}

  receive(data: string | ArrayBuffer): void {
    if (typeof data === 'string' && this.waiting === 0) {
      this.deliver(data);
      return;
    }
    this.waiting += 1;
    // Handled at once, because it may fail before it is its turn.
    const text = typeof data === 'string' ? Promise.resolve(data) : decompressed(data).catch(() => null);
    this.last = this.last.then(async () => this.take(await text));
  }

  private take(text: string | null): Promise<void> | void {
    if (text === null) {
      this.broken();
      return new Promise(() => {});
    }
    this.waiting -= 1;
    try {
      this.deliver(text);
    } catch (error) {
      // As for an error in a listener: it is reported, and the next message is delivered.
      reportError(error);
    }
  }
}

function decompressed(data: ArrayBuffer): Promise<string> {
  return new Response(new Blob([data]).stream().pipeThrough(new DecompressionStream('deflate'))).text();
}
