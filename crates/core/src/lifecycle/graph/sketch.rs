//! Decides how each edge is shown: as a line with its words, as a row with a line, or as a row
//! only.
//!
//! A lifecycle has few ways forward and many ways out: nearly every state may be cancelled, fail or
//! be blocked. Lines for all of them would hide what a task normally does, so the states where many
//! lead are set aside, and what leads there is listed in the boxes. No edge is left out.

use super::super::{Lifecycle, State, StateKind, TransitionTarget, state_id};
use super::card::{self, Card};
use super::{Edge, edges};
use crate::draw::layout::{self, Line, Order, Sizes};
use crate::draw::words::Words;

/// What a picture consists of, before it is known where anything is.
pub(super) struct Sketch {
    pub(super) edges: Vec<Edge>,
    /// The states that are placed in layers, the initial one first, as indexes.
    pub(super) placed: Vec<usize>,
    /// The states that are set aside.
    pub(super) aside: Vec<usize>,
    /// The box of each state of the lifecycle.
    pub(super) cards: Vec<Card>,
    /// The lines between placed states, by their places in `placed`, and the edge of each.
    pub(super) lines: Vec<Line>,
    pub(super) line_edges: Vec<usize>,
    /// The words on each line.
    pub(super) words: Vec<Words>,
    pub(super) order: Order,
}

/// From so many states on, lines to a state would hide the rest.
const MANY: usize = 3;

pub(super) fn sketch(lifecycle: &Lifecycle) -> Sketch {
    let edges = edges(lifecycle);
    let is_aside = set_aside(lifecycle, &edges);
    let initial = usize::from(lifecycle.initial.0);
    let others = (0..is_aside.len()).filter(|state| !is_aside[*state] && *state != initial);
    let placed: Vec<usize> = std::iter::once(initial).chain(others).collect();
    let aside = (0..is_aside.len()).filter(|state| is_aside[*state]).collect();

    let mut place_of = vec![None; is_aside.len()];
    for (place, state) in placed.iter().enumerate() {
        place_of[*state] = Some(place);
    }
    let (mut lines, mut line_edges) = (Vec::new(), Vec::new());
    for (index, edge) in edges.iter().enumerate() {
        if let Some(line) = line(edge, &place_of) {
            lines.push(line);
            line_edges.push(index);
        }
    }
    let order = layout::order(placed.len(), &lines);

    let mut listed = vec![Vec::new(); is_aside.len()];
    let mut labelled = vec![false; edges.len()];
    for (edge, down) in line_edges.iter().zip(&order.down) {
        labelled[*edge] = *down;
    }
    for (index, edge) in edges.iter().enumerate() {
        if !labelled[index] {
            listed[usize::from(edge.from.0)].push(index);
        }
    }
    let states = lifecycle.states.iter().zip(&listed);
    let cards =
        states.map(|(state, listed)| card::card(lifecycle, state, &edges, listed)).collect();
    let words = line_edges.iter().map(|edge| card::words(&edges[*edge])).collect();
    Sketch { edges, placed, aside, cards, lines, line_edges, words, order }
}

impl Sketch {
    pub(super) fn sizes(&self) -> Sizes {
        let boxes =
            self.placed.iter().map(|state| (self.cards[*state].width, self.cards[*state].height));
        let words = self.words.iter().map(|words| (words.width, words.height));
        Sizes { boxes: boxes.collect(), words: words.collect() }
    }
}

/// The line of an edge, if both its states are placed and differ.
fn line(edge: &Edge, place_of: &[Option<usize>]) -> Option<Line> {
    let TransitionTarget::State(to) = edge.to else {
        return None;
    };
    let (from, to) = (place_of[usize::from(edge.from.0)]?, place_of[usize::from(to.0)]?);
    (from != to).then_some(Line { from, to })
}

/// The states that are set aside: so many lead there that lines would hide the rest.
///
/// The others must stay reachable without them, or the picture would have no way to show how.
fn set_aside(lifecycle: &Lifecycle, edges: &[Edge]) -> Vec<bool> {
    let mut entries = vec![0_usize; lifecycle.states.len()];
    for edge in edges {
        if let TransitionTarget::State(to) = edge.to
            && to != edge.from
        {
            entries[usize::from(to.0)] += 1;
        }
    }
    let is_side = |index: usize, state: &State| {
        entries[index] >= MANY && lies_beside(state.kind) && lifecycle.initial != state_id(index)
    };
    let states = lifecycle.states.iter().enumerate();
    let mut aside: Vec<bool> = states.map(|(index, state)| is_side(index, state)).collect();
    if !others_reachable(lifecycle, edges, &aside) {
        aside.iter_mut().zip(&lifecycle.states).for_each(|(aside, state)| *aside &= state.terminal);
    }
    aside
}

/// Whether states of a kind lie beside the way of a task that goes well.
fn lies_beside(kind: StateKind) -> bool {
    match kind {
        StateKind::Blocked | StateKind::Parked | StateKind::Failed | StateKind::Cancelled => true,
        StateKind::Queued
        | StateKind::Working
        | StateKind::Reviewing
        | StateKind::Waiting
        | StateKind::Done => false,
    }
}

fn others_reachable(lifecycle: &Lifecycle, edges: &[Edge], aside: &[bool]) -> bool {
    let mut exits = vec![Vec::new(); aside.len()];
    for edge in edges {
        if let TransitionTarget::State(to) = edge.to {
            exits[usize::from(edge.from.0)].push(usize::from(to.0));
        }
    }
    let initial = usize::from(lifecycle.initial.0);
    let mut reached = aside.to_vec();
    reached[initial] = true;
    let mut open = vec![initial];
    while let Some(state) = open.pop() {
        for next in &exits[state] {
            if !reached[*next] {
                reached[*next] = true;
                open.push(*next);
            }
        }
    }
    reached.into_iter().all(|reached| reached)
}
