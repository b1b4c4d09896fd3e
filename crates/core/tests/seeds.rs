//! The built-in lifecycles against the tables of the documents that they come from.
//!
//! Each file of `seed_tables` writes one document's table by hand, row by row, and never reads the
//! YAML: a mistake there shows here as a cell that differs.

mod seed_tables;
