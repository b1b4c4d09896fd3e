//! A parent whose subtasks end in every way: it has always ended, or asks a person, or has a
//! subtask that is not over.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::StateKind;
use banksman_core::lifecycle::contract::{Field, Trigger};
use banksman_core::machine::{Actor, ImportedState, NewTask, import};
use banksman_core::time::Instant;
use serde_json::{Value, json};

use crate::walk::{builtin_with, fields};
use crate::world::World;

/// Histories that are played, and moves of subtasks in each.
const HISTORIES: u64 = 400;
const MOVES: usize = 30;

/// How a subtask stands, as the engine counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Open,
    InReview,
    Waiting,
    Merged,
    /// Done without a change: a spike, or work that was there already.
    Found,
    Failed,
    Cancelled,
}

use Part::{Cancelled, Failed, Found, InReview, Merged, Open, Waiting};

impl Part {
    fn is_given_up(self) -> bool {
        matches!(self, Failed | Cancelled)
    }

    /// What can become of it.
    fn next(self) -> &'static [Self] {
        match self {
            Open => &[InReview, Found, Failed, Cancelled],
            InReview => &[Open, Waiting, Failed, Cancelled],
            Waiting => &[Open, InReview, Merged, Failed, Cancelled],
            Failed => &[Open, Cancelled],
            Merged | Found | Cancelled => &[],
        }
    }
}

/// The same numbers each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % sides.max(1)
    }
}

struct Parent {
    world: World,
    parts: Vec<Part>,
    /// Whether each has named a pull request.
    links: Vec<bool>,
}

impl Parent {
    fn new(parts: usize) -> Self {
        let lifecycle = builtin_with("autonomous", &[]);
        let state = lifecycle.find_state("in_progress").expect("it has it");
        let given = fields(json!({ "worker_id": "ada", "split": true }));
        let new = NewTask { title: "a plan".to_owned(), fields: given, ..NewTask::default() };
        let arrival = ImportedState { state, prior: None };
        let born = import(&lifecycle, &new, arrival, &Actor::human("kim"), TaskId(1), Instant(0));
        let world = World::of_step(lifecycle, born.expect("a parent"));
        Self { world, parts: vec![Open; parts], links: vec![false; parts] }
    }

    /// What `engine::planning` tells the lifecycle.
    fn facts(&self) -> Value {
        let count =
            |wanted: &[Part]| self.parts.iter().filter(|part| wanted.contains(part)).count();
        let asked = self.asked();
        let links = self.links.iter().any(|link| *link).then_some("local:a local:b");
        json!({
            Field::ChildrenOpen.name(): count(&[Open]),
            Field::ChildrenInReview.name(): count(&[InReview]),
            Field::ChildrenWaiting.name(): count(&[Waiting]),
            Field::ChildrenDone.name(): count(&[Merged, Found]),
            Field::ChildrenMerged.name(): count(&[Merged]),
            Field::ChildrenGivenUp.name(): asked,
            Field::ChildrenProblem.name(): (asked > 0).then_some("some were given up"),
            Field::GivenUp.name(): self.given_up(),
            Field::PrUrl.name(): links,
        })
    }

    fn given_up(&self) -> Vec<String> {
        let given_up = self.parts.iter().enumerate().filter(|(_, part)| part.is_given_up());
        given_up.map(|(at, _)| at.to_string()).collect()
    }

    /// Whether a person goes on without a subtask, by what they were asked.
    fn is_left_out(&self, at: usize) -> bool {
        let left_out = self.world.task.fields.get("left_out").and_then(Value::as_array);
        left_out.is_some_and(|left_out| left_out.contains(&json!(at.to_string())))
    }

    fn asked(&self) -> usize {
        let each = self.parts.iter().enumerate();
        each.filter(|(at, part)| part.is_given_up() && !self.is_left_out(*at)).count()
    }

    fn follow(&mut self) {
        let how = format!("on {}", Trigger::ChildrenMoved);
        for _ in 0..8 {
            if self.world.state() == "done" || self.world.ask("system", &how, self.facts()).is_err()
            {
                return;
            }
        }
    }

    fn part_moves(&mut self, dice: &mut Dice) {
        let movable: Vec<usize> =
            (0..self.parts.len()).filter(|at| !self.parts[*at].next().is_empty()).collect();
        let Some(at) = movable.get(dice.roll(movable.len())).copied() else { return };
        let next = self.parts[at].next();
        self.become_(at, next[dice.roll(next.len())]);
        // Several may have moved before the parent looks.
        if dice.roll(4) > 0 {
            self.follow();
        }
    }

    fn become_(&mut self, at: usize, next: Part) {
        let again = self.parts[at] == Failed && next == Open;
        self.parts[at] = next;
        self.links[at] = match next {
            InReview | Waiting | Merged => true,
            Open if again => false,
            Open | Found | Failed | Cancelled => self.links[at],
        };
    }

    /// A person answers with one of the offers that lead on.
    fn answered(&mut self, dice: &mut Dice) {
        let how = ["on unblock", "on go_without"][dice.roll(2)];
        if self.world.ask("human:kim", how, json!({})).is_err() {
            return;
        }
        for at in 0..self.parts.len() {
            if how == "on unblock" && self.parts[at] == Failed && !self.is_left_out(at) {
                self.become_(at, Open);
            }
        }
        self.follow();
    }

    fn assert_not_stranded(&mut self, seed: u64) {
        self.follow();
        let state = self.world.lifecycle.state(self.world.task.state);
        let is_open = self.parts.iter().any(|part| matches!(part, Open | InReview | Waiting));
        let asks = state.kind == StateKind::Blocked
            && self.world.task.fields.get("children_asked") == Some(&json!(true));
        assert!(
            state.terminal || asks || is_open,
            "history {seed}: {} with {:?}, left out {:?}",
            state.name,
            self.parts,
            self.world.task.fields.get("left_out")
        );
        if state.kind == StateKind::Done {
            let merged = self.world.task.fields.get("merged") == Some(&json!(true));
            assert_eq!(merged, self.parts.contains(&Merged), "history {seed}: {:?}", self.parts);
        }
    }
}

#[test]
fn a_parent_is_never_stranded_by_how_its_subtasks_end() {
    let (mut ended, mut without) = (0, 0);
    for seed in 0..HISTORIES {
        let mut dice = Dice(seed);
        let mut parent = Parent::new(1 + dice.roll(4));
        for _ in 0..MOVES {
            if parent.world.state() == "blocked" && dice.roll(2) == 0 {
                parent.answered(&mut dice);
            } else {
                parent.part_moves(&mut dice);
            }
            if parent.world.state() == "done" {
                break;
            }
        }
        parent.assert_not_stranded(seed);
        ended += usize::from(parent.world.state() == "done");
        without += usize::from(parent.world.state() == "done" && !parent.parts.contains(&Merged));
    }
    assert!(ended > 50 && without > 10, "{ended} ended, {without} of them without a change");
}

/// As it was seen: a spike and two subtasks; a person cancels both and goes on without them, and
/// the spike ends without a commit.
#[test]
fn a_parent_whose_spike_alone_is_left_is_done_with_what_was_found() {
    let mut parent = Parent::new(3);
    parent.parts = vec![Open, Cancelled, Cancelled];
    parent.follow();
    assert_eq!(parent.world.state(), "blocked");
    parent.world.goes("human:kim", "on go_without", json!({}), "in_progress");
    parent.parts[0] = Found;
    parent.follow();
    assert_eq!(parent.world.state(), "done");
    assert_eq!(parent.world.task.fields.get("merged"), None, "nothing was merged");
}
