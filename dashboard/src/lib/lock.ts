// One tab at a time. Browsers have locks for that, but only for pages over HTTPS or on localhost; others take turns by an
// entry in the local storage, which expires so that a closed tab blocks nobody.
import { randomKey } from './browser';

const HELD_MS = 15_000;
const AGAIN_MS = 60;

export function exclusively<T>(name: string, work: () => Promise<T>, storage: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'> = localStorage): Promise<T> {
  const locks = globalThis.navigator?.locks as LockManager | undefined;
  return locks === undefined ? inTurn(name, work, storage) : (locks.request(name, work) as Promise<T>);
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

export async function inTurn<T>(name: string, work: () => Promise<T>, storage: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>): Promise<T> {
  const key = `${name}.lock`;
  const owner = randomKey();
  const holder = () => {
    const [id = '', until = '0'] = (storage.getItem(key) ?? '').split(' ');
    return Number(until) > Date.now() ? id : null;
  };
  for (;;) {
    if (holder() === null) {
      storage.setItem(key, `${owner} ${Date.now() + HELD_MS}`);
      // Of tabs that write at the same time, the last one holds it. A storage that keeps nothing cannot make anybody wait.
      await pause(AGAIN_MS / 2);
      const now = holder();
      if (now === owner || now === null) break;
    }
    await pause(AGAIN_MS);
  }
  try {
    return await work();
  } finally {
    if (holder() === owner) storage.removeItem(key);
  }
}
