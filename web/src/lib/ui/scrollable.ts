// Makes scrolling content accessible by keyboard, and shows that there is more of it.

/** An attachment that makes a node focusable, and names it unless it has a name, while its content is larger than the node. */
export function scrollable(node: HTMLElement): () => void {
  const isNamed = node.hasAttribute('aria-label');
  /** On which sides more columns are. */
  const mark = () => {
    const sides = [node.scrollLeft > 1 && 'left', node.scrollLeft + node.clientWidth < node.scrollWidth - 1 && 'right'].filter((side) => side !== false);
    if (sides.length > 0) node.dataset.more = sides.join(' ');
    else delete node.dataset.more;
  };
  const look = () => {
    mark();
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
  node.addEventListener('scroll', mark, { passive: true });
  return () => {
    watcher.disconnect();
    node.removeEventListener('scroll', mark);
  };
}
