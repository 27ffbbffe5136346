/** Milliseconds: timers that are set for longer ring at once. */
export const LONGEST = 2 ** 31 - 1;
