// Work that is repeated while the page is visible.

/** Does `work` now and again `period` ms after it ended, while the page is visible. Returns what stops it. */
export function repeated(work: (signal: AbortSignal) => Promise<void>, period: number): () => void {
  const stop = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isWorking = false;

  async function turn() {
    if (isWorking || stop.signal.aborted || document.hidden) return;
    clearTimeout(timer);
    isWorking = true;
    await work(stop.signal);
    isWorking = false;
    if (!stop.signal.aborted) timer = setTimeout(() => void turn(), period);
  }

  document.addEventListener('visibilitychange', () => void turn(), { signal: stop.signal });
  // Outside of the effect that starts it, which must not depend on what the work reads.
  timer = setTimeout(() => void turn());
  return () => {
    stop.abort();
    clearTimeout(timer);
  };
}
