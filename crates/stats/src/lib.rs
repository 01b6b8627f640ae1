//! What is measured, as pure arithmetic: sequence accounting, jitter, delay, clock fit, histograms, link usage.
