//! The command line from outside: the real program in a folder of its own, its exact output, its
//! exit codes.

mod adding;
mod authority;
mod broken_stores;
mod changes;
mod contract;
mod deciding;
mod facts;
mod guide;
mod harness;
mod hostile;
mod lifecycles;
mod looking;
mod masks;
mod moving;
mod output;
mod pages;
mod questions;
mod reference;
mod sandbox;
mod settings;
mod steering;
mod transfer;
mod triage;
mod watching;
mod windows;
mod workflow;
