//! Ends the pauses of accounts whose time is over.

use super::Result;
use super::turn::{Reconciler, Turn};
use crate::store::Store;

pub(super) struct Pauses<'a>(pub(super) &'a Store);

impl Reconciler for Pauses<'_> {
    fn run_once(&self, turn: &mut Turn) -> Result<()> {
        self.0.end_pauses(turn.now)?;
        Ok(())
    }
}
