import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { Icon } from '../parts/icon.tsx';

const NEAR = 80;

interface ScrollerProps {
  /** Whether it follows the text. What a new chat shows begins at its top. */
  follows: boolean;
  /** A number that changes when the person has sent something: then the end is shown, wherever they were. */
  sent: number;
  /** What waits for the person at the end; empty when nothing does. */
  waiting: string;
  children: ComponentChildren;
}

/** Follows the text as it grows, unless the person has scrolled up to read: then a button leads to the newest. */
export function Scroller({ follows, sent, waiting, children }: ScrollerProps) {
  const element = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const isFollowing = useRef(true);
  const isAway = useSignal(false);
  const isText = useRef(follows);
  isText.current = follows;
  const last = useRef(0);
  const follow = () => {
    const box = element.current;
    if (!box || !isText.current) return;
    if (isFollowing.current) box.scrollTop = box.scrollHeight;
    else isAway.value = !isNear(box);
  };
  useLayoutEffect(() => {
    if (!element.current || !content.current) return;
    // Called after the layout of a frame, and only when a size has changed: nothing asks for a layout of its own.
    const sizes = new ResizeObserver(follow);
    sizes.observe(element.current);
    sizes.observe(content.current);
    return () => sizes.disconnect();
  }, []);
  const goToEnd = () => {
    isFollowing.current = true;
    isAway.value = false;
    follow();
  };
  useEffect(() => {
    if (sent > 0) goToEnd();
  }, [sent]);
  const onScroll = () => {
    const box = element.current;
    if (!box) return;
    // Only upwards it is the person who leaves the end: a text that gets another width moves downwards by itself.
    if (isNear(box) || box.scrollTop < last.current) isFollowing.current = isNear(box);
    isAway.value = isText.current && !isFollowing.current && !isNear(box);
    last.current = box.scrollTop;
  };
  return (
    <div class="talk-body">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, and a keyboard has to reach it */}
      <div class="talk-scroll" ref={element} onScroll={onScroll} tabIndex={0}>
        <div class="talk-content" ref={content}>
          {children}
        </div>
      </div>
      {isAway.value && (
        <button
          type="button"
          class={waiting ? 'talk-newest main' : 'talk-newest'}
          onClick={() => {
            goToEnd();
            element.current?.focus({ preventScroll: true }); // the button goes
          }}
        >
          <Icon name="arrow_down" />
          {waiting || 'Newest'}
        </button>
      )}
    </div>
  );
}

function isNear(box: HTMLElement): boolean {
  return box.scrollHeight - box.scrollTop - box.clientHeight < NEAR;
}
