// The clock of the server, from the times at which its messages were sent. Network Time Protocol (RFC 5905, section 10) takes
// the sample with the least delay; here it is the one that puts the server furthest ahead, because no message arrives before
// it was sent.
const SAMPLES = 10;
/** A server that seems to be behind by less than this may be right: its messages take time to arrive. */
const DELAY_MS = 1000;
/** Smaller changes would only make the clock jump. */
const CHANGE_MS = 100;

export class ServerClock {
  /** How far the clock of the server is ahead of this browser's, in milliseconds. */
  ahead = 0;
  private readonly samples: number[] = [];

  /** A message that was sent at one instant and received at another, in milliseconds since 1970. */
  hear(sent: number, received: number): void {
    this.samples.push(sent - received);
    if (this.samples.length > SAMPLES) this.samples.shift();
    const best = Math.max(...this.samples);
    const ahead = best < 0 && best > -DELAY_MS ? 0 : best;
    if (Math.abs(ahead - this.ahead) > CHANGE_MS) this.ahead = ahead;
  }
}
