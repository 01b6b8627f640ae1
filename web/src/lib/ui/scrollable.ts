// What is larger than its place scrolls in it, and then has to be reached by keys.

/** An attachment: focusable, and named, for as long as it has something to scroll. */
export function scrollable(node: HTMLElement): () => void {
  const look = () => {
    const more = node.scrollWidth > node.clientWidth + 1 || node.scrollHeight > node.clientHeight + 1;
    if (more === node.hasAttribute('tabindex')) return;
    if (more) {
      node.tabIndex = 0;
      node.setAttribute('role', 'group');
      node.setAttribute('aria-label', 'Scrolls');
    } else for (const name of ['tabindex', 'role', 'aria-label']) node.removeAttribute(name);
  };
  const watcher = new ResizeObserver(look);
  watcher.observe(node);
  if (node.firstElementChild !== null) watcher.observe(node.firstElementChild);
  return () => watcher.disconnect();
}
