//! `banksman mcp` over pipes, as an agent uses it.

mod session;
mod talking;
mod telling;
