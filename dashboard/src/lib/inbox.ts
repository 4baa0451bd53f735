// Decodes the messages of a websocket, in the order in which they arrived: text at once, compressed ones as soon as the
// browser has decompressed them, and text after a compressed one when it is its turn.

/** What the page asks the server for, and what it decompresses. */
export const ENCODING = 'deflate';

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
    const text = typeof data === 'string' ? data : decompressed(data);
    const next = Promise.all([text, this.last]).then(([found]) => {
      this.waiting -= 1;
      this.deliver(found);
    });
    next.catch(this.broken);
    this.last = next;
  }
}

function decompressed(data: ArrayBuffer): Promise<string> {
  return new Response(new Blob([data]).stream().pipeThrough(new DecompressionStream(ENCODING))).text();
}
