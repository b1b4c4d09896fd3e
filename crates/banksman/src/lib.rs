//! The program as a library, so that tests and benchmarks can reach every module; `main` only calls
//! it.

pub mod api;
pub mod cli;
pub mod clock;
pub mod config;
pub mod engine;
pub mod exec;
pub mod mcp;
pub mod ops;
pub mod plain_file;
pub mod prompts;
pub mod store;
