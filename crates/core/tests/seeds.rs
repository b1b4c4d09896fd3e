//! The built-in lifecycles against the tables of the documents that they come from.
//!
//! Each file of `seed_tables` writes one table down by hand, row by row, and never reads the YAML:
//! a slip there shows here as a cell that differs. A table has three parts. `SEED` quotes its
//! document and gives the rows that carry out each quote; `ADDED` has our own rows; `PENDING`
//! quotes what nothing drives yet, which the lifecycle therefore must not have.

mod seed_tables;
