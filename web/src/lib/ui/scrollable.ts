// Makes scrolling content accessible by keyboard.

/** An attachment that makes a node focusable, and names it unless it has a name, while its content is larger than the node. */
export function scrollable(node: HTMLElement): () => void {
  const isNamed = node.hasAttribute('aria-label');
  const look = () => {
    const more = node.scrollWidth > node.clientWidth + 1 || node.scrollHeight > node.clientHeight + 1;
    if (more === node.hasAttribute('tabindex')) return;
    if (more) node.tabIndex = 0;
    else node.removeAttribute('tabindex');
    if (isNamed) return;
    if (more) {
      node.setAttribute('role', 'group');
      node.setAttribute('aria-label', 'Scrolls');
    } else for (const name of ['role', 'aria-label']) node.removeAttribute(name);
  };
  const watcher = new ResizeObserver(look);
  watcher.observe(node);
  if (node.firstElementChild !== null) watcher.observe(node.firstElementChild);
  return () => watcher.disconnect();
}
