//! Every rendering of a run record: terminal text, JSON, CSV.
