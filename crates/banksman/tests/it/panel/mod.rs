//! Panels of reviewers, with the real engine, real keepers and scripted agents: who is asked, what
//! becomes of their answers, and that nobody is left at work when a panel is over.

mod answers;
mod debating;
mod explaining;
mod judging;
mod sitting;
mod suggesting;
mod table;
