// What browsers offer only to pages over HTTPS or on localhost, done in another way where it is missing.

/** 128 random bits in hexadecimal; `crypto.randomUUID` exists only in secure contexts. */
export function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Copies a text to the clipboard; false if the browser refuses. */
export async function copyText(text: string): Promise<boolean> {
  // Undefined outside secure contexts, which the types do not show.
  const clipboard = navigator.clipboard as Clipboard | undefined;
  if (clipboard !== undefined) {
    try {
      await clipboard.writeText(text);
      return true;
    } catch {
      // Without the permission, the way below may still work.
    }
  }
  return copySelection(text);
}

function copySelection(text: string): boolean {
  const before = document.activeElement;
  const box = document.createElement('textarea');
  box.value = text;
  box.readOnly = true;
  box.style.position = 'fixed';
  box.style.opacity = '0';
  // Everything outside an open modal dialog is inert.
  (document.querySelector('dialog[open]') ?? document.body).append(box);
  box.select();
  try {
    return document.execCommand('copy');
  } finally {
    box.remove();
    if (before instanceof HTMLElement) before.focus({ preventScroll: true });
  }
}
