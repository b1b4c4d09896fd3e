//! The program: a library, so that tests and benches can reach every part, and a small `main`.

pub mod api;
pub mod cli;
pub mod clock;
pub mod config;
pub mod engine;
pub mod exec;
pub mod mcp;
pub mod ops;
pub mod prompts;
pub mod store;
