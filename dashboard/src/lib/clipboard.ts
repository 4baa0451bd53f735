// Copies text. Browsers offer their clipboard only over https and on localhost; elsewhere, a selected field is copied.

/** Returns whether the text was copied. */
export async function copyText(text: string): Promise<boolean> {
  try {
    if (navigator.clipboard !== undefined) {
      await navigator.clipboard.writeText(text);
      return true;
    }
  } catch {
    // It may be forbidden, and then the other way may work.
  }
  return copySelected(text);
}

function copySelected(text: string): boolean {
  const field = document.createElement('textarea');
  field.value = text;
  field.readOnly = true;
  field.className = 'sr';
  const before = document.activeElement;
  // Everything outside of an open dialog is inert.
  ([...document.querySelectorAll('dialog[open]')].at(-1) ?? document.body).append(field);
  try {
    field.select();
    return document.execCommand('copy');
  } catch {
    return false;
  } finally {
    field.remove();
    if (before instanceof HTMLElement) before.focus();
  }
}
