import { expect, it } from 'vitest';
import { ServerClock } from '../../src/lib/serverClock';

const NOW = Date.UTC(2026, 10, 21);

function heard(...ahead: number[]): number {
  const clock = new ServerClock();
  ahead.forEach((ms, i) => clock.hear(NOW + i * 1000 + ms, NOW + i * 1000));
  return clock.ahead;
}

it('the delay of messages is not taken for another clock', () => {
  expect(heard(-30, -80, -900, -40)).toBe(0);
});

it('a late message does not put the clock back, whatever follows it', () => {
  expect(heard(-30, -1050, -40)).toBe(0);
  expect(heard(-1050, -100)).toBe(0);
  expect(heard(5000, 3950, 4990)).toBe(5000);
});

it('another clock is followed, ahead at once and back when no message contradicts it', () => {
  expect(heard(-20, 480)).toBe(480);
  expect(heard(-7_200_000)).toBe(-7_200_000);
  const set = Array.from({ length: 10 }, () => -60_020);
  expect(heard(-20, ...set.slice(1))).toBe(0);
  expect(heard(-20, ...set)).toBe(-60_020);
});
