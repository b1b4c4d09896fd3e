//! Places boxes in layers and routes lines between them. It knows boxes and lines, not their
//! meaning.
//!
//! Lines that a walk from the first box finds to lead back are set apart; along the others every
//! box is below all boxes that lead to it. Between two layers of boxes lies one for the words on
//! the lines, and a line that crosses a layer has its own cell there, so nothing overlaps. The
//! order in a layer comes from sweeps that pull each cell to the mean of its neighbours, and the
//! positions from sweeps that do the same with exact distances.

/// A line from one box to another, by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) from: usize,
    pub(super) to: usize,
}

/// Which box is below which, and which lines lead down.
#[derive(Debug)]
pub(super) struct LayerOrder {
    ranks: Vec<usize>,
    /// By line. Lines that do not lead down go round at the side.
    pub(super) down: Vec<bool>,
}

/// A width and a height.
pub(super) type Size = (f64, f64);

/// All positions. The position of a box is its top and the middle of its width.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) boxes: Vec<Spot>,
    /// The positions that each line passes between its boxes; its words are at the first. `None`
    /// for lines that go round at the side.
    pub(super) ways: Vec<Option<Vec<Spot>>>,
    pub(super) layers: Vec<Layer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Spot {
    pub(super) middle: f64,
    pub(super) top: f64,
    pub(super) layer: usize,
}

/// A layer from top to bottom, and its extent to both sides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Layer {
    pub(super) top: f64,
    pub(super) bottom: f64,
    pub(super) left: f64,
    pub(super) right: f64,
}

/// Cells that lines take up in layers. Beyond that, lines over several layers go round at the side.
const MAX_CELLS: usize = 8_000;
const ORDER_SWEEPS: usize = 8;
const POSITION_SWEEPS: usize = 12;
/// Distance between two boxes in a layer.
const GAP: f64 = 36.0;
/// Distance of a line to its neighbours.
const LINE_GAP: f64 = 18.0;
/// Room between a layer of boxes and the words below or above it.
const LAYER_GAP: f64 = 22.0;

/// Computes the layers from `leading`: the lines that are not known to lead back. The walk begins
/// at the first box.
pub(super) fn order(box_count: usize, lines: &[Line], leading: &[Line]) -> LayerOrder {
    let ranks = ranks(box_count, leading);
    let mut cells = box_count;
    let down = lines.iter().map(|line| {
        let span = ranks[line.to].saturating_sub(ranks[line.from]);
        let fits = span == 1 || (span > 1 && cells + 2 * span <= MAX_CELLS);
        cells += if fits { 2 * span } else { 0 };
        fits
    });
    let down = down.collect();
    LayerOrder { ranks, down }
}

/// Computes the positions of the boxes and of the words on each line; the words on lines that do
/// not lead down are ignored.
pub(super) fn plan(lines: &[Line], order: &LayerOrder, boxes: &[Size], words: &[Size]) -> Layout {
    let mut grid = Grid::new(lines, order, boxes, words);
    grid.order();
    let middles = grid.middles();
    grid.plan(boxes.len(), &middles)
}

/// The layer of each box: one below the lowest box that leads to it, ignoring lines that lead back.
fn ranks(box_count: usize, lines: &[Line]) -> Vec<usize> {
    let mut exits = vec![Vec::new(); box_count];
    for line in lines {
        exits[line.from].push(line.to);
    }
    let finished = finishing_order(&exits);
    let mut position = vec![0; box_count];
    for (index, node) in finished.iter().enumerate() {
        position[*node] = index;
    }
    let mut ranks = vec![0; box_count];
    for node in finished.iter().rev() {
        for next in &exits[*node] {
            if position[*next] < position[*node] {
                ranks[*next] = ranks[*next].max(ranks[*node] + 1);
            }
        }
    }
    ranks
}

/// Boxes in the order in which a depth-first walk finishes them. A line leads back if and only if
/// its end is finished after its start.
fn finishing_order(exits: &[Vec<usize>]) -> Vec<usize> {
    let mut entered = vec![false; exits.len()];
    let mut finished = Vec::with_capacity(exits.len());
    for root in 0..exits.len() {
        if entered[root] {
            continue;
        }
        entered[root] = true;
        let mut path = vec![(root, exits[root].iter())];
        while let Some((node, rest)) = path.last_mut() {
            match rest.next() {
                Some(next) if !entered[*next] => {
                    entered[*next] = true;
                    path.push((*next, exits[*next].iter()));
                }
                Some(_) => {}
                None => {
                    finished.push(*node);
                    path.pop();
                }
            }
        }
    }
    finished
}

/// A cell of a layer: a box, or where a line crosses the layer.
struct Cell {
    width: f64,
    height: f64,
    layer: usize,
    /// Whether it is a bend of a long line, which should stay straight.
    bend: bool,
    above: Vec<usize>,
    below: Vec<usize>,
}

struct Grid {
    /// The boxes first, in their order.
    cells: Vec<Cell>,
    layers: Vec<Vec<usize>>,
    /// The cells between the ends of each line that leads down.
    chains: Vec<Option<Vec<usize>>>,
}

impl Grid {
    fn new(lines: &[Line], order: &LayerOrder, boxes: &[Size], words: &[Size]) -> Self {
        let depth = order.ranks.iter().max().map_or(0, |deepest| deepest * 2 + 1);
        let mut grid =
            Self { cells: Vec::new(), layers: vec![Vec::new(); depth], chains: Vec::new() };
        for (size, rank) in boxes.iter().zip(&order.ranks) {
            grid.add(*size, rank * 2, false);
        }
        for ((line, words), is_down) in lines.iter().zip(words).zip(&order.down) {
            let chain = is_down.then(|| grid.chain(*line, *words, &order.ranks));
            grid.chains.push(chain);
        }
        grid
    }

    fn add(&mut self, (width, height): Size, layer: usize, bend: bool) -> usize {
        let index = self.cells.len();
        self.cells.push(Cell { width, height, layer, bend, above: Vec::new(), below: Vec::new() });
        self.layers[layer].push(index);
        index
    }

    fn chain(&mut self, line: Line, words: Size, ranks: &[usize]) -> Vec<usize> {
        let (first, last) = (ranks[line.from] * 2 + 1, ranks[line.to] * 2);
        let mut chain = vec![self.add(words, first, false)];
        for layer in first + 1..last {
            let bend = self.add((0.0, 0.0), layer, true);
            chain.push(bend);
        }
        let mut previous = line.from;
        for next in chain.iter().copied().chain([line.to]) {
            self.cells[previous].below.push(next);
            self.cells[next].above.push(previous);
            previous = next;
        }
        chain
    }

    fn order(&mut self) {
        let mut place = vec![0.0; self.cells.len()];
        for layer in &self.layers {
            number(layer, &mut place);
        }
        for (index, down) in self.sweeps(ORDER_SWEEPS) {
            let mut layer = std::mem::take(&mut self.layers[index]);
            let wanted = |cell: &usize| self.wish(*cell, down, &place);
            layer.sort_by(|left, right| wanted(left).total_cmp(&wanted(right)));
            number(&layer, &mut place);
            self.layers[index] = layer;
        }
    }

    /// The layers from the top, then from the bottom, this many times in turn, and whether it goes
    /// down.
    fn sweeps(&self, count: usize) -> impl Iterator<Item = (usize, bool)> + use<> {
        let last = self.layers.len();
        let step = move |sweep: usize, step: usize| {
            let down = sweep.is_multiple_of(2);
            (if down { step } else { last - 1 - step }, down)
        };
        (0..count).flat_map(move |sweep| (0..last).map(move |at| step(sweep, at)))
    }

    /// Where its neighbours in the layer before pull a cell.
    fn wish(&self, cell: usize, down: bool, places: &[f64]) -> f64 {
        let neighbours = if down { &self.cells[cell].above } else { &self.cells[cell].below };
        mean(neighbours, places).unwrap_or(places[cell])
    }

    /// The middle of every cell.
    fn middles(&self) -> Vec<f64> {
        let mut middles = vec![0.0; self.cells.len()];
        for layer in &self.layers {
            self.spread(layer, &mut middles);
        }
        for (index, down) in self.sweeps(POSITION_SWEEPS) {
            for cell in &self.layers[index] {
                middles[*cell] = self.wish(*cell, down, &middles);
            }
            self.spread(&self.layers[index], &mut middles);
        }
        middles
    }

    /// Moves the cells of a layer apart, each as little as possible from its preferred position.
    ///
    /// Without the distances, the positions only must not decrease; cells in conflict are pooled
    /// and share the mean of their preferences.
    fn spread(&self, layer: &[usize], middles: &mut [f64]) {
        let mut pools: Vec<Pool> = Vec::new();
        let mut offsets = Vec::with_capacity(layer.len());
        let mut offset = 0.0;
        for (index, cell) in layer.iter().enumerate() {
            if index > 0 {
                offset += self.distance(layer[index - 1], *cell);
            }
            offsets.push(offset);
            let weight = if self.cells[*cell].bend { 4.0 } else { 1.0 };
            let mut pool = Pool { wish: middles[*cell] - offset, weight, cells: 1 };
            while let Some(before) = pools.pop_if(|before| before.wish >= pool.wish) {
                pool = before.joined(&pool);
            }
            pools.push(pool);
        }
        let mut wishes = pools.iter().flat_map(|pool| std::iter::repeat_n(pool.wish, pool.cells));
        for (cell, offset) in layer.iter().zip(offsets) {
            middles[*cell] = offset + wishes.next().unwrap_or_default();
        }
    }

    fn distance(&self, left: usize, right: usize) -> f64 {
        let (left, right) = (&self.cells[left], &self.cells[right]);
        let gap = if left.bend || right.bend || left.layer % 2 == 1 { LINE_GAP } else { GAP };
        (left.width + right.width) / 2.0 + gap
    }

    fn plan(&self, box_count: usize, middles: &[f64]) -> Layout {
        let mut layers = Vec::with_capacity(self.layers.len());
        let mut top = 0.0;
        for cells in &self.layers {
            let height = cells.iter().map(|cell| self.cells[*cell].height).fold(0.0, f64::max);
            let lefts = cells.iter().map(|cell| middles[*cell] - self.cells[*cell].width / 2.0);
            let rights = cells.iter().map(|cell| middles[*cell] + self.cells[*cell].width / 2.0);
            let (left, right) = (lefts.fold(f64::MAX, f64::min), rights.fold(f64::MIN, f64::max));
            layers.push(Layer { top, bottom: top + height, left, right });
            top += height + LAYER_GAP;
        }
        let spot = |cell: usize| {
            let layer = self.cells[cell].layer;
            Spot { middle: middles[cell], top: layers[layer].top, layer }
        };
        let boxes = (0..box_count).map(spot).collect();
        let way = |cells: &Vec<usize>| cells.iter().map(|cell| spot(*cell)).collect();
        let ways = self.chains.iter().map(|chain| chain.as_ref().map(way)).collect();
        Layout { boxes, ways, layers }
    }
}

/// Neighbouring cells of a layer that move together.
struct Pool {
    wish: f64,
    weight: f64,
    cells: usize,
}

impl Pool {
    fn joined(&self, other: &Self) -> Self {
        let weight = self.weight + other.weight;
        let wish = (self.wish * self.weight + other.wish * other.weight) / weight;
        Self { wish, weight, cells: self.cells + other.cells }
    }
}

fn number(layer: &[usize], place: &mut [f64]) {
    for (index, cell) in (0_u32..).zip(layer) {
        place[*cell] = f64::from(index);
    }
}

fn mean(cells: &[usize], values: &[f64]) -> Option<f64> {
    let count = u32::try_from(cells.len()).ok().filter(|count| *count > 0)?;
    let sum: f64 = cells.iter().map(|cell| values[*cell]).sum();
    Some(sum / f64::from(count))
}
