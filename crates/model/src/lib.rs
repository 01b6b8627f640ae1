//! The shared nouns: units, plan, run record, their versions and JSON Schemas. A leaf.
