//! Executes effects: runs agents, git and checks, and knows nothing of the store.
//!
//! Every job has a folder and a keeper: a small process that owns the job from its spec to its
//! receipt and outlives the control plane.

pub mod agent;
pub mod evidence;
pub mod files;
pub mod git;
pub mod job;
pub mod keeper;
pub mod lock;
pub mod mailbox;
pub mod merge;
pub mod note;
pub mod process;
pub mod repo;
pub mod site;
pub mod window;
pub mod worktree;
