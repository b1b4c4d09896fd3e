//! The one integration test binary: each module below tests one surface of the program from
//! outside.
//!
//! It holds no tests itself; a new suite is one more `mod` line here.

// Clippy then knows that set-up code outside of `#[test]` functions is test code too, where
// `unwrap` is allowed.
#![cfg(test)]

mod agents;
mod agents_live;
mod as_system;
mod cli;
mod crash;
mod daily;
mod engine;
mod git;
mod keeper;
mod mailbox;
mod mcp;
mod panel;
mod planning;
mod policy;
mod programs;
mod prompts;
mod scripted;
mod simulation;
mod store;
mod tidy;
mod workflow;
