//! The folder `.workflow/` of a repository, by its files: what is written, read, taken and left
//! alone.

mod clearing;
mod feedback;
mod hiding;
mod recording;
mod signals;
mod world;
