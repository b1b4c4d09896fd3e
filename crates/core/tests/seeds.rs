//! The built-in lifecycles against the tables of the documents that they come from.
//!
//! Each file of `seed_tables` writes one document's table down by hand, row by row, and never reads
//! the YAML: a slip there shows here as a cell that differs.

mod seed_tables;
