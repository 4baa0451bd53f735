import { deflateSync } from 'node:zlib';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { Inbox } from '../../src/lib/inbox';

const packed = (text: string): ArrayBuffer => new Uint8Array(deflateSync(text)).buffer;

describe('the messages of a socket', () => {
  afterEach(() => vi.unstubAllGlobals());

  it('are delivered after one whose delivery fails', async () => {
    const reported = vi.fn();
    vi.stubGlobal('reportError', reported);
    const delivered: string[] = [];
    const inbox = new Inbox((text) => {
      if (text === 'bad') throw new Error('a view is broken');
      delivered.push(text);
    }, () => delivered.push('broken'));
    inbox.receive(packed('bad'));
    inbox.receive(packed('good'));
    await vi.waitFor(() => expect(delivered).toEqual(['good']));
    expect(reported).toHaveBeenCalledOnce();
  });

  it('are delivered at once if they are text', () => {
    const delivered: string[] = [];
    new Inbox((text) => delivered.push(text), () => {}).receive('a');
    expect(delivered).toEqual(['a']);
  });

  it('are delivered in their order, compressed or not', async () => {
    const delivered: string[] = [];
    const inbox = new Inbox((text) => delivered.push(text), () => {});
    const sent = Array.from({ length: 30 }, (_, i) => (i % 3 === 0 ? `${i} ${'x'.repeat(100_000 - i * 3000)}` : `${i}`));
    sent.forEach((text, i) => inbox.receive(i % 3 === 0 ? packed(text) : text));
    expect(delivered).toEqual([]);
    await vi.waitFor(() => expect(delivered.length).toBe(30));
    expect(delivered).toEqual(sent);
    inbox.receive('at once again');
    expect(delivered.at(-1)).toBe('at once again');
  });

  it('end with one that is broken', async () => {
    const delivered: string[] = [];
    const broken = vi.fn();
    const inbox = new Inbox((text) => delivered.push(text), broken);
    inbox.receive(packed('good'));
    inbox.receive(new Uint8Array([1, 2, 3]).buffer);
    inbox.receive('after it');
    await vi.waitFor(() => expect(broken).toHaveBeenCalled());
    await new Promise((resolve) => setTimeout(resolve));
    expect(delivered).toEqual(['good']);
  });
});
