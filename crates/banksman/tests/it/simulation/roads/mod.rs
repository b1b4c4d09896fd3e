//! The roads: every state of every built-in lifecycle, everything that can happen in it, and where
//! that ends.
//!
//! The cells are found, not listed. From each scene the way to every state is searched, and what
//! can happen there follows from its activity. A new lifecycle, state, outcome or failure class has
//! its cells at once. `BANKSMAN_ROAD='judged running: quota'` prints the trace of one cell.
//!
//! The roads with what comes of each are pages of the reference, which `BANKSMAN_BLESS=1` writes.

mod cell;
mod drive;
mod known;
mod page;
mod plot;
mod rules;
mod scene;

use std::collections::{BTreeMap, VecDeque};
use std::env;
use std::sync::Mutex;
use std::thread;

use cell::{Event, Place};
use drive::{Leg, Road, Seen, travel};
use plot::Step;
use scene::Scene;

/// Cores that walk side by side.
const WALKERS: usize = 2;
/// Answers that are tried at the first question of a cell.
const ANSWERS: usize = 5;

/// What came of a cell.
#[derive(Debug, Clone)]
struct Row {
    place: Place,
    event: Event,
    end: String,
    runs: usize,
    /// Each answer to the first question, and where it leads.
    answers: Vec<(String, String)>,
    broken: Vec<String>,
}

impl Row {
    fn name(&self) -> String {
        format!("{}: {}", self.place, self.event)
    }
}

/// A cell with what came of it, and the states that were seen on the way.
struct Walked {
    row: Row,
    seen: Vec<Seen>,
    step: Step,
    route: Vec<Step>,
}

fn is_shown(name: &str) -> bool {
    env::var("BANKSMAN_ROAD").is_ok_and(|wanted| wanted == name)
}

fn show(road: &Road, leg: &str) {
    println!("=== {leg}\n{}", road.world.ground.borrow().trace.join("\n"));
}

/// Walks a cell: once with people who say nothing, and once for each answer to the first question.
fn walk(scene: Scene, route: &[Step], step: &Step) -> Walked {
    let name = format!("{}: {}", step.place, step.event);
    let mut road = travel(scene, route, Some(step), Leg::Silence);
    let end = rules::end(&road);
    let mut broken = rules::broken(&mut road, step);
    broken.extend(rules::is_recorded(&road, step));
    if is_shown(&name) {
        show(&road, "silence");
    }
    let runs = road.world.plot.borrow().paid.iter().filter(|paid| paid.is_after).count();
    let mut answers = Vec::new();
    let mut go = |leg: Leg, words: String| {
        let mut road = travel(scene, route, Some(step), leg);
        let end = rules::end(&road);
        let found = rules::broken(&mut road, step);
        broken.extend(found.into_iter().map(|what| format!("{words}: {what}")));
        if is_shown(&name) {
            show(&road, &words);
        }
        answers.push((words, end));
    };
    match (&step.event, &road.first) {
        (Event::Answer(_), _) => go(Leg::Answers(None), "and so on".to_owned()),
        (event, Some(first)) if event.tries_answers() => {
            for (at, offer) in first.offers.iter().enumerate().take(ANSWERS) {
                go(Leg::Answers(Some(at)), offer.clone());
            }
        }
        (_, Some(_) | None) => {}
    }
    broken.sort();
    broken.dedup();
    let (place, event) = (step.place.clone(), step.event.clone());
    let row = Row { place, event, end, runs, answers, broken };
    Walked { row, seen: std::mem::take(&mut road.seen), step: step.clone(), route: route.to_vec() }
}

/// All cells of a scene. Each state is reached by the first way that was found to it.
fn explore(scene: Scene) -> Vec<Row> {
    let start = travel(scene, &[], None, Leg::Answers(None));
    if !start.broken.is_empty() {
        show(&start, "the good road");
    }
    assert!(start.broken.is_empty(), "{}: {:?}", scene.name, start.broken);
    let mut ways: BTreeMap<Place, Vec<Step>> = BTreeMap::new();
    let mut open: VecDeque<(Vec<Step>, Step)> = VecDeque::new();
    let mut find = |seen: Vec<Seen>, route: &[Step], open: &mut VecDeque<(Vec<Step>, Step)>| {
        for Seen { place, events } in seen {
            if ways.contains_key(&place) {
                continue;
            }
            ways.insert(place.clone(), route.to_vec());
            let step = |event| Step { place: place.clone(), event, is_silent: true };
            let steps = events.into_iter().map(step);
            open.extend(steps.map(|step| (route.to_vec(), step)));
        }
    };
    find(start.seen, &[], &mut open);
    let mut rows = Vec::new();
    while !open.is_empty() {
        let batch: Vec<(Vec<Step>, Step)> = open.drain(..).collect();
        for walked in walk_all(scene, batch) {
            let mut route = walked.route;
            let is_way = walked.step.event.can_be_on_the_way();
            route.push(walked.step);
            if is_way {
                find(walked.seen, &route, &mut open);
            }
            rows.push(walked.row);
        }
    }
    rows.sort_by(|one, other| (&one.place, &one.event).cmp(&(&other.place, &other.event)));
    rows
}

/// Walks cells side by side; what comes of them is in their order.
fn walk_all(scene: Scene, batch: Vec<(Vec<Step>, Step)>) -> Vec<Walked> {
    let queue = Mutex::new(batch.into_iter().enumerate());
    let mut walked: Vec<(usize, Walked)> = thread::scope(|scope| {
        let walkers = (0..WALKERS).map(|_| {
            scope.spawn(|| {
                let mut done = Vec::new();
                loop {
                    let next = queue.lock().expect("nobody panics with it").next();
                    let Some((number, (route, step))) = next else { return done };
                    done.push((number, walk(scene, &route, &step)));
                }
            })
        });
        let walkers: Vec<_> = walkers.collect();
        walkers.into_iter().flat_map(|walker| walker.join().expect("it walks on")).collect()
    });
    walked.sort_by_key(|(number, _)| *number);
    walked.into_iter().map(|(_, walked)| walked).collect()
}

/// Every cell of a scene keeps the rules, except those that are known not to.
fn assert_scene(name: &str) {
    let scene = scene::scenes().into_iter().find(|scene| scene.name == name);
    let rows = explore(scene.unwrap_or_else(|| panic!("there is a scene {name}")));
    println!("{name}: {} cells", rows.len());
    page::check(name, &rows);
    known::check(name, &rows);
}

#[test]
fn autonomous() {
    assert_scene("autonomous");
}

#[test]
fn subtasks() {
    assert_scene("subtasks");
}

#[test]
fn judged() {
    assert_scene("judged");
}

#[test]
fn supervised() {
    assert_scene("supervised");
}

#[test]
fn mission() {
    assert_scene("mission");
}

#[test]
fn workflow() {
    assert_scene("workflow");
}

#[test]
fn notify() {
    assert_scene("notify");
}

#[test]
fn gate() {
    assert_scene("gate");
}

#[test]
fn manual() {
    assert_scene("manual");
}

/// A lifecycle that has no test of its own is not forgotten.
#[test]
fn every_scene_is_walked() {
    let names: Vec<&str> = scene::scenes().iter().map(|scene| scene.name).collect();
    let walked = [
        "autonomous",
        "subtasks",
        "mission",
        "judged",
        "supervised",
        "workflow",
        "notify",
        "gate",
        "manual",
        "budget",
    ];
    assert_eq!(names, walked);
    let index = include_str!("../../../../../../docs/reference/roads.md");
    for name in names {
        assert!(index.contains(&format!("(roads/{name}.md)")), "the index lacks {name}");
    }
}

#[test]
fn budget() {
    assert_scene("budget");
}
