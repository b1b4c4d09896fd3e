//! What agents are told: the templates of a project, what is refused about them, and that what
//! `prompts render` shows is what an agent gets, to the letter.

mod files;
mod rendered;
