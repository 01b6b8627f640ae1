// What is wider than its place scrolls in it, and then has to be reached by keys.

/** An attachment: focusable, and named, for as long as it has something to scroll. */
export function scrollable(node: HTMLElement): () => void {
  const look = () => {
    const wide = node.scrollWidth > node.clientWidth + 1;
    if (wide === node.hasAttribute('tabindex')) return;
    if (wide) {
      node.tabIndex = 0;
      node.setAttribute('role', 'group');
      node.setAttribute('aria-label', 'Scrolls sideways');
    } else for (const name of ['tabindex', 'role', 'aria-label']) node.removeAttribute(name);
  };
  const watcher = new ResizeObserver(look);
  watcher.observe(node);
  if (node.firstElementChild !== null) watcher.observe(node.firstElementChild);
  return () => watcher.disconnect();
}
