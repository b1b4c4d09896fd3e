//! What the box of a state says, and how much room that takes.
//!
//! A box names its state and lists the ways out that no line with words on it shows: those to where
//! many states lead, those back, and those to itself. It decides no position.

use super::super::{Lifecycle, State, TransitionTarget};
use super::Edge;
use crate::draw::words::{INDENT, PADDING, Row, Words, name_width, shortened, small_width};

/// The box of one state, with all places counted from its upper left corner.
#[derive(Debug)]
pub(super) struct Card {
    pub(super) width: f64,
    pub(super) height: f64,
    /// Name and second line, shortened to what fits.
    pub(super) name: String,
    pub(super) duty: String,
    pub(super) rows: Vec<Row>,
}

pub(super) const HEADER_HEIGHT: f64 = 46.0;
const MIN_WIDTH: f64 = 180.0;
/// Rows are filled to this width, or to that of the longest cause.
const USUAL_TEXT_WIDTH: f64 = 250.0;

/// `listed`: the edges that the box shows as rows.
pub(super) fn card(lifecycle: &Lifecycle, state: &State, edges: &[Edge], listed: &[usize]) -> Card {
    let name = shortened(&state.name);
    let duty = shortened(&duty(state));
    let mut top = HEADER_HEIGHT;
    let mut rows: Vec<Row> = Vec::with_capacity(listed.len());
    let widest =
        listed.iter().flat_map(|edge| &edges[*edge].causes).map(|cause| small_width(&cause.text()));
    let room = widest.fold(USUAL_TEXT_WIDTH, f64::max);
    for edge in listed {
        let row = row(lifecycle, edges, *edge, (top, room));
        top += row.height();
        rows.push(row);
    }
    let name_width = name_width(&name) + 2.0 * INDENT;
    let header_width = name_width.max(small_width(&duty) + INDENT);
    let row_width = rows.iter().map(Row::width).fold(0.0, f64::max);
    let width = header_width.max(row_width).max(MIN_WIDTH) + 2.0 * PADDING;
    let height = if rows.is_empty() { top } else { top + PADDING };
    Card { width, height, name, duty, rows }
}

pub(super) fn words(edge: &Edge) -> Words {
    Words::new(edge.causes.iter().map(super::Cause::text).collect())
}

/// The kind as a word, and what is done meanwhile.
fn duty(state: &State) -> String {
    let Some(does) = &state.does else {
        return state.kind.to_string();
    };
    match &does.role {
        Some(role) => format!("{} · {} {role}", state.kind, does.activity.as_str()),
        None => format!("{} · {}", state.kind, does.activity.as_str()),
    }
}

fn row(lifecycle: &Lifecycle, edges: &[Edge], index: usize, place: (f64, f64)) -> Row {
    let edge = &edges[index];
    let target = match edge.to {
        TransitionTarget::State(id) if id == edge.from => "itself".to_owned(),
        TransitionTarget::State(_) | TransitionTarget::Prior => {
            shortened(lifecycle.target_name(edge.to))
        }
    };
    Row::new(index, target, edge.causes.iter().map(super::Cause::text), place)
}
