//! Kept results: SQLite storage of run records.
