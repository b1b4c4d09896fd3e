//! Routes lines out of and into boxes, and round at the side of the layers, each in its own lane.
//!
//! A line that goes round leaves its box beside its row and enters the other beside its name. If
//! another box of the layer is in the way, it leaves at the bottom and enters at the top. Short
//! lines get the inner lanes.

use super::layout::{Layer, Layout, Line, Size, Spot};

/// A line that goes round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Round {
    pub(super) line: Line,
    /// Index of its edge, for the caller.
    pub(super) edge: usize,
    /// How far below the top of its box it leaves.
    pub(super) exit: f64,
}

/// The corners of a line, from its start to its arrow.
pub(super) type Corners = Vec<(f64, f64)>;

/// Lines that are drawn. More would only darken the sides, and each is listed in its box anyway.
const MAX_ROUNDS: usize = 400;
/// Distance between two lanes, and of the first lane to the layers.
const LANE: f64 = 14.0;
const CLEARANCE: f64 = 26.0;
/// Distance to the boxes of a line that runs between two layers.
const STRIP: f64 = 9.0;
/// Distance between two lines that leave or enter a box at the bottom or the top.
const PORT_STEP: f64 = 28.0;
/// Where the first line enters beside a name, and the distance of the next ones.
const ENTRY: f64 = 14.0;
const ENTRY_STEP: f64 = 7.0;
const MAX_ENTRIES: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

impl Side {
    /// The sign of the direction that leads outwards.
    fn outwards(self) -> f64 {
        match self {
            Self::Left => -1.0,
            Self::Right => 1.0,
        }
    }
}

/// A lane in use: its position, and its top and bottom.
struct Lane {
    side: Side,
    x: f64,
    top: f64,
    bottom: f64,
}

/// How far from the middle of its boxes a line that leads down starts and ends.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Ports {
    pub(super) start: f64,
    pub(super) arrow: f64,
}

/// Separates the lines that start or end at one box, in the order in which they continue.
pub(super) fn ports(plan: &Layout, sizes: &[Size], lines: &[Line]) -> Vec<Ports> {
    let mut starts = vec![Vec::new(); sizes.len()];
    let mut arrows = vec![Vec::new(); sizes.len()];
    for (index, (line, way)) in lines.iter().zip(&plan.ways).enumerate() {
        if let Some([first, .., last] | [first @ last]) = way.as_deref() {
            starts[line.from].push((first.middle, index));
            arrows[line.to].push((last.middle, index));
        }
    }
    let mut ports = vec![Ports::default(); lines.len()];
    for (index, offset) in fanned(starts, sizes) {
        ports[index].start = offset;
    }
    for (index, offset) in fanned(arrows, sizes) {
        ports[index].arrow = offset;
    }
    ports
}

fn fanned(lines_of: Vec<Vec<(f64, usize)>>, sizes: &[Size]) -> Vec<(usize, f64)> {
    let mut offsets = Vec::new();
    for (mut lines, (width, _)) in lines_of.into_iter().zip(sizes) {
        lines.sort_by(|left, right| left.0.total_cmp(&right.0));
        let count = f64::from(u32::try_from(lines.len()).unwrap_or(u32::MAX));
        let step = (width / (count + 1.0)).min(PORT_STEP);
        let mut offset = -step * (count - 1.0) / 2.0;
        for (_, index) in lines {
            offsets.push((index, offset));
            offset += step;
        }
    }
    offsets
}

/// The corners of each line, in their order; empty for lines that are not drawn.
pub(super) fn routes(plan: &Layout, sizes: &[Size], rounds: &[Round]) -> Vec<Corners> {
    let mut by_length: Vec<usize> = (0..rounds.len()).collect();
    let length = |index: &usize| {
        let line = rounds[*index].line;
        plan.boxes[line.from].layer.abs_diff(plan.boxes[line.to].layer)
    };
    by_length.sort_by_key(length);
    by_length.truncate(MAX_ROUNDS);

    let mut router = Router { plan, sizes, lanes: Vec::new(), entries: vec![0; sizes.len()] };
    let mut routes = vec![Corners::new(); rounds.len()];
    for index in by_length {
        routes[index] = router.route(&rounds[index]);
    }
    routes
}

struct Router<'a> {
    plan: &'a Layout,
    sizes: &'a [Size],
    lanes: Vec<Lane>,
    /// How many lines enter each box at its side.
    entries: Vec<usize>,
}

impl Router<'_> {
    fn route(&mut self, round: &Round) -> Corners {
        let Line { from, to } = round.line;
        let side = self.side(from, to);
        let start = self.start(from, round.exit, side);
        let end = self.end(to, side);
        let (start_y, end_y) = (last_y(&start), last_y(&end));
        let x = self.lane(side, start_y.min(end_y), start_y.max(end_y));
        let mut corners = start;
        corners.extend([(x, start_y), (x, end_y)]);
        corners.extend(end.into_iter().rev());
        corners
    }

    /// The side where most ends are free; if both are equal, the side with fewer lanes.
    fn side(&self, from: usize, to: usize) -> Side {
        let free = |side| {
            usize::from(self.is_outermost(from, side)) + usize::from(self.is_outermost(to, side))
        };
        let (left, right) = (free(Side::Left), free(Side::Right));
        let (one, other) = (self.plan.boxes[from].top, self.plan.boxes[to].top);
        let (top, bottom) = (one.min(other), one.max(other));
        let used = |side| {
            self.lanes.iter().filter(|lane| lane.side == side && lane.meets(top, bottom)).count()
        };
        if left > right || (left == right && used(Side::Left) < used(Side::Right)) {
            Side::Left
        } else {
            Side::Right
        }
    }

    fn edge_x(&self, node: usize, side: Side) -> f64 {
        self.plan.boxes[node].middle + side.outwards() * self.sizes[node].0 / 2.0
    }

    fn is_outermost(&self, node: usize, side: Side) -> bool {
        let own = self.plan.boxes[node];
        let is_farther =
            |other: &Spot| side.outwards() * other.middle > side.outwards() * own.middle;
        !self.plan.boxes.iter().any(|other| other.layer == own.layer && is_farther(other))
    }

    /// The corners up to where the line turns into its lane.
    fn start(&self, node: usize, exit: f64, side: Side) -> Corners {
        let (x, spot) = (self.edge_x(node, side), self.plan.boxes[node]);
        if self.is_outermost(node, side) {
            return vec![(x, spot.top + exit)];
        }
        let x = inwards(x, side, STRIP + LANE);
        vec![(x, spot.top + self.sizes[node].1), (x, self.plan.layers[spot.layer].bottom + STRIP)]
    }

    /// The same from the other end.
    fn end(&mut self, node: usize, side: Side) -> Corners {
        let x = self.edge_x(node, side);
        let spot = self.plan.boxes[node];
        if self.is_outermost(node, side) {
            let entry = u32::try_from(self.entries[node].min(MAX_ENTRIES)).unwrap_or(0);
            self.entries[node] += 1;
            return vec![(x, spot.top + ENTRY + ENTRY_STEP * f64::from(entry))];
        }
        let x = inwards(x, side, STRIP);
        vec![(x, spot.top), (x, spot.top - STRIP)]
    }

    /// Takes the innermost free lane between two heights.
    fn lane(&mut self, side: Side, top: f64, bottom: f64) -> f64 {
        let passed =
            self.plan.layers.iter().filter(|layer| layer.top <= bottom && layer.bottom >= top);
        let taken = self.lanes.iter().filter(|lane| lane.side == side && lane.meets(top, bottom));
        let edge = |layer: &Layer| match side {
            Side::Left => -layer.left,
            Side::Right => layer.right,
        };
        let inner = passed.map(|layer| edge(layer) + CLEARANCE);
        let used = taken.map(|lane| side.outwards() * lane.x + LANE);
        let x = side.outwards() * inner.chain(used).fold(f64::MIN, f64::max);
        self.lanes.push(Lane { side, x, top, bottom });
        x
    }
}

impl Lane {
    fn meets(&self, top: f64, bottom: f64) -> bool {
        self.top <= bottom + LANE && self.bottom + LANE >= top
    }
}

fn inwards(x: f64, side: Side, distance: f64) -> f64 {
    x - side.outwards() * distance
}

fn last_y(corners: &[(f64, f64)]) -> f64 {
    corners.last().map_or(0.0, |corner| corner.1)
}
