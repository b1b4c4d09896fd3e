//! What must hold of the layout of any boxes and lines.

use proptest::prelude::*;

use super::layout::{self, Layout, Line, Size};
use super::words::fitted;

fn any_sheet() -> impl Strategy<Value = (Vec<Line>, Vec<Size>, Vec<Size>)> {
    (1_usize..14).prop_flat_map(|count| {
        let line = (0..count, 0..count).prop_filter("no loops", |(from, to)| from != to);
        let lines = prop::collection::vec(line.prop_map(|(from, to)| Line { from, to }), 0..30);
        let lines = if count == 1 { Just(Vec::new()).boxed() } else { lines.boxed() };
        let boxes = prop::collection::vec((50.0..300.0_f64, 30.0..120.0_f64), count);
        let words = prop::collection::vec((10.0..200.0_f64, 15.0..75.0_f64), 30);
        (lines, boxes, words)
    })
}

/// Left, right, top and bottom of all boxes and all words.
fn areas(plan: &Layout, boxes: &[Size], words: &[Size]) -> Vec<(String, [f64; 4])> {
    let area = |middle: f64, top: f64, (width, height): (f64, f64)| {
        [middle - width / 2.0, middle + width / 2.0, top, top + height]
    };
    let boxes = plan.boxes.iter().zip(boxes).enumerate();
    let boxes = boxes
        .map(|(index, (spot, size))| (format!("box {index}"), area(spot.middle, spot.top, *size)));
    let words = plan.ways.iter().zip(words).enumerate().filter_map(|(index, (way, size))| {
        let spot = way.as_ref()?.first()?;
        Some((format!("words {index}"), area(spot.middle, spot.top, *size)))
    });
    boxes.chain(words).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_overlaps((lines, boxes, words) in any_sheet()) {
        let order = layout::order(boxes.len(), &lines, &lines);
        let plan = layout::plan(&lines, &order, &boxes, &words);
        let areas = areas(&plan, &boxes, &words);
        for (index, (name, one)) in areas.iter().enumerate() {
            for (other_name, other) in &areas[index + 1..] {
                let beside = one[1] <= other[0] || other[1] <= one[0];
                let below = one[3] <= other[2] || other[3] <= one[2];
                prop_assert!(beside || below, "{} and {}: {:?} {:?}", name, other_name, one, other);
            }
        }
    }

    #[test]
    fn lines_with_words_lead_down((lines, boxes, words) in any_sheet()) {
        let order = layout::order(boxes.len(), &lines, &lines);
        let plan = layout::plan(&lines, &order, &boxes, &words);
        for (line, way) in lines.iter().zip(&plan.ways) {
            let Some(way) = way else { continue };
            let mut layer = plan.boxes[line.from].layer;
            for spot in way.iter().chain([&plan.boxes[line.to]]) {
                prop_assert_eq!(spot.layer, layer + 1);
                layer = spot.layer;
            }
        }
    }

    #[test]
    fn what_leads_one_way_never_goes_round(count in 2_usize..14, picks in prop::collection::vec((0_usize..14, 0_usize..14), 0..30)) {
        let upward = |(one, other): (usize, usize)| {
            let (from, to) = (one.min(other) % count, one.max(other) % count);
            (from < to).then_some(Line { from, to })
        };
        let lines: Vec<Line> = picks.into_iter().filter_map(upward).collect();
        let order = layout::order(count, &lines, &lines);
        prop_assert!(order.down.iter().all(|down| *down), "{:?}", lines);
    }
}

#[test]
fn a_cycle_goes_back_once() {
    let lines = [(0, 1), (1, 2), (2, 0), (2, 1), (0, 2)].map(|(from, to)| Line { from, to });
    assert_eq!(layout::order(3, &lines, &lines).down, [true, true, false, false, true]);
}

#[test]
fn a_long_text_is_cut_to_its_room() {
    assert_eq!(fitted("short", 100.0), "short");
    assert_eq!(fitted("a text that is too long", 100.0), "a text that i…");
    assert_eq!(fitted("長い説明です", 50.0), "長い説…");
}
