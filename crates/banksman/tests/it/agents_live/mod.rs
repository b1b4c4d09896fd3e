//! The real agents, each in its pinned version, against a model server on loopback.
//!
//! What they print is read by the adapters, so these tests say that the adapters understand the
//! agents of today, and what an agent leaves behind when it is killed. `scripts/agents` installs
//! them; where one is missing, `scripts/test` leaves its tests out.

mod answers;
mod cases;
mod dialects;
mod model_server;
mod needs_claude;
mod needs_codex;
mod needs_gemini;
mod needs_opencode;
mod run;
mod scripted;
mod whole;
