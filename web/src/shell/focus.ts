const CAN_HAVE = 'a[href], button, input, select, textarea, summary, [tabindex]';

/**
 * Keeps the focus of a keyboard on the page. When the thing that has it is removed (the row was deleted, the form was
 * answered), the nearest thing that can have it gets it. A browser would leave it on nothing.
 */
export function keepFocus(): void {
  noteKeys();
  let focused: Element | undefined;
  document.addEventListener('focusin', ({ target }) => {
    // Somebody who points does not see a focus and does not miss it; on a phone a field would open the keyboard.
    focused = target instanceof Element && target.matches(':focus-visible') ? target : undefined;
  });
  const watch = new MutationObserver((changes) => {
    if (!focused || focused.isConnected || document.activeElement !== document.body) return;
    const lost = focused;
    focused = undefined;
    const removal = changes.find(({ target, removedNodes }) => {
      return target.isConnected && [...removedNodes].some((node) => node.contains(lost));
    });
    if (removal) nearest(removal)?.focus({ preventScroll: true });
  });
  watch.observe(document.body, { childList: true, subtree: true });
}

/** Marks the page of a person who goes by Tab: only they see where the focus is on the content as a whole. */
function noteKeys(): void {
  const { dataset } = document.documentElement;
  document.addEventListener('keydown', ({ key }) => {
    if (key === 'Tab') dataset.keys = '';
  });
  document.addEventListener('pointerdown', () => {
    delete dataset.keys;
  });
}

/** Puts the focus on the content, unless it is there already: after the way to another page. */
export function focusMain(): void {
  const main = document.getElementById('main');
  if (main && !main.contains(document.activeElement)) main.focus({ preventScroll: true });
}

function nearest({ target, nextSibling, previousSibling }: MutationRecord): HTMLElement | undefined {
  for (const beside of [nextSibling, previousSibling]) {
    const found = firstIn(beside);
    if (found) return found;
  }
  for (let node: Node | null = target; node; node = node.parentNode) {
    if (isReady(node) && node.matches(CAN_HAVE)) return node;
    const found = firstIn(node);
    if (found) return found;
  }
  return undefined;
}

function firstIn(node: Node | null): HTMLElement | undefined {
  if (!(node instanceof HTMLElement) || !node.isConnected) return undefined;
  return [node, ...node.querySelectorAll(CAN_HAVE)].find(
    (one): one is HTMLElement => isReady(one) && one.matches(CAN_HAVE) && one.tabIndex >= 0,
  );
}

function isReady(node: Node): node is HTMLElement {
  return node instanceof HTMLElement && !node.matches(':disabled') && node.checkVisibility();
}
