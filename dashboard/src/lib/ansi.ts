// Turns the ANSI colours of a log line into pieces of text with CSS classes. All other control sequences are dropped, and
// nothing is treated as markup.

export interface Piece {
  text: string;
  class: string;
}

const COLOURS = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'];
// Control sequences, operating system commands, and control characters except tab.
const OTHER = /\u001b\[[0-9;?]*[A-Za-ln-z]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[\u0000-\u0008\u000b-\u001a\u001c-\u001f]/g;
const SGR = /\u001b\[([0-9;]*)m/g;

export const ESC = '\u001b';

export function pieces(line: string): Piece[] {
  if (!line.includes(ESC)) return [{ text: line.replace(OTHER, ''), class: '' }];
  const text = line.replace(OTHER, '');
  const found: Piece[] = [];
  let style = { colour: '', bold: false, dim: false };
  let from = 0;
  const add = (part: string) => {
    if (part === '') return;
    const names = [style.colour && `a-${style.colour}`, style.bold && 'a-bold', style.dim && 'a-dim'].filter(Boolean);
    found.push({ text: part.replaceAll('\u001b', ''), class: names.join(' ') });
  };
  for (const match of text.matchAll(SGR)) {
    add(text.slice(from, match.index));
    from = match.index + match[0].length;
    const codes = (match[1] ?? '').split(';').map(Number);
    for (let i = 0; i < codes.length; i++) {
      const code = codes[i] ?? 0;
      if (code === 0) style = { colour: '', bold: false, dim: false };
      else if (code === 1) style = { ...style, bold: true };
      else if (code === 2) style = { ...style, dim: true };
      else if (code === 22) style = { ...style, bold: false, dim: false };
      else if (code === 39) style = { ...style, colour: '' };
      else if (code >= 30 && code <= 37) style = { ...style, colour: COLOURS[code - 30] ?? '' };
      else if (code >= 90 && code <= 97) style = { ...style, colour: COLOURS[code - 90] ?? '' };
      else if (code === 38 || code === 48) i += codes[i + 1] === 5 ? 2 : 4; // 256-colour and true-colour codes are ignored
    }
  }
  add(text.slice(from));
  return found.length > 0 ? found : [{ text: '', class: '' }];
}

export function plain(line: string): string {
  return line.replace(OTHER, '').replace(SGR, '').replaceAll('\u001b', '');
}
