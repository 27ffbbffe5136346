const FIRST = 2_000;
const LONGEST = 30_000;

/**
 * Asks again whether a turn still runs while nothing is heard of it: the gateway may have told its end before this page
 * listened, or the state of a moment earlier. The pauses grow.
 */
export class StateWatch {
  #timer: ReturnType<typeof setTimeout> | undefined;
  #pause = FIRST;
  #isEnded = false;

  constructor(readonly ask: () => void) {}

  /** Something was heard or read: the next question waits from now on. */
  note(isRunning: boolean): void {
    clearTimeout(this.#timer);
    if (!isRunning || this.#isEnded) {
      this.#pause = FIRST;
      return;
    }
    this.#timer = setTimeout(() => {
      this.#pause = Math.min(LONGEST, this.#pause * 2);
      this.ask();
    }, this.#pause);
  }

  end(): void {
    this.#isEnded = true;
    clearTimeout(this.#timer);
  }
}
