//! `banksman mcp` over pipes, as an agent uses it.

pub(crate) mod session;
mod talking;
mod telling;
