//! The real agents, each in its pinned version, against a model server on loopback.
//!
//! What they print is read by the adapters, so these tests say that the adapters understand the
//! agents of today, and what an agent leaves behind when it is killed. `scripts/agents` installs
//! them; where one is missing, its tests say SKIPPED and pass.

mod answers;
mod cases;
mod claude;
mod codex;
mod dialects;
mod gemini;
mod model_server;
mod opencode;
mod run;
mod scripted;
mod whole;
