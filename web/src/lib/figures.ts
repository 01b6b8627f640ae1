// Figures of a record that stand for many values: which one it is, is said beside it. Pure.

interface Distribution {
  mean_seconds: number;
  p50_seconds?: number | null;
}

/** The median, which few samples do not have; then the mean. */
export function middleOf(of: Distribution): { word: 'median' | 'mean'; value: number } {
  return typeof of.p50_seconds === 'number' ? { word: 'median', value: of.p50_seconds } : { word: 'mean', value: of.mean_seconds };
}
