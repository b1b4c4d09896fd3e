//! The contents of a table, how it is compared with a lifecycle, and how a task is played through
//! one.

mod autonomous;
mod budget;
mod judged;
mod leaf;
mod mission;
mod play;
mod review;
mod step;
mod supervised;
mod workflow;

use std::collections::{BTreeMap, BTreeSet};

use banksman_core::lifecycle::check::Overrides;
use banksman_core::lifecycle::expr::ResolvedName;
use banksman_core::lifecycle::{
    Activity, CounterId, EntryEffect, Lifecycle, Outcome, PRIOR, RoleId, Route, Since, StateId,
    StateKind, Timeout, Transition, builtin,
};
use banksman_core::time::Span;
use serde_json::{Value, json};

use play::Play;

type Text = &'static str;
/// A transition that an actor may take: from, to, trigger, roles, and what it requires and changes.
type Move = (Text, Text, Text, &'static [Text], Text);
/// A transition by timeout: from, to, trigger, time, since, and what it changes.
type Timed = (Text, Text, Text, Text, Since, Text);
/// The activity of a state: state, activity, and each outcome or offered action with its trigger.
type Doing = (Text, Text, &'static [(Text, Text)]);
/// A counter: name, limit, and where the transition that reaches it leads.
type Limit = (Text, Option<u32>, Option<Text>);

/// Rows of a table, of whatever kind.
#[derive(Clone, Copy)]
struct Rows {
    states: &'static [(Text, StateKind)],
    terminal: &'static [Text],
    moves: &'static [Move],
    timed: &'static [Timed],
    /// Fields that a state requires, each as often as it has requirements.
    requires: &'static [(Text, &'static [Text])],
    does: &'static [Doing],
    /// What happens when a state is entered.
    effects: &'static [(Text, Text)],
    counters: &'static [Limit],
}

const NONE: Rows = Rows {
    states: &[],
    terminal: &[],
    moves: &[],
    timed: &[],
    requires: &[],
    does: &[],
    effects: &[],
    counters: &[],
};

/// What a document says, in its own words, and the rows that carry it out.
type Quote = (Text, Rows);
/// What a document says, the rows that would carry it out, and the part of the program that is to
/// drive them. Until there is such a part, the lifecycle must not have them: it would promise what
/// nothing does.
type Pending = (Text, &'static [PendingMove], Text);
/// From, to, trigger, roles.
type PendingMove = (Text, Text, Text, &'static [Text]);

const fn states(states: &'static [(Text, StateKind)]) -> Rows {
    Rows { states, ..NONE }
}

const fn terminal(terminal: &'static [Text]) -> Rows {
    Rows { terminal, ..NONE }
}

const fn moves(moves: &'static [Move]) -> Rows {
    Rows { moves, ..NONE }
}

const fn timed(timed: &'static [Timed]) -> Rows {
    Rows { timed, ..NONE }
}

const fn requires(requires: &'static [(Text, &'static [Text])]) -> Rows {
    Rows { requires, ..NONE }
}

const fn does(does: &'static [Doing]) -> Rows {
    Rows { does, ..NONE }
}

const fn counters(counters: &'static [Limit]) -> Rows {
    Rows { counters, ..NONE }
}

/// One lifecycle: what its document states, and what we added to it.
struct Table {
    name: Text,
    initial: Text,
    /// Besides `human` and `system`.
    roles: &'static [Text],
    seed: &'static [Quote],
    pending: &'static [Pending],
    added: Rows,
}

impl Table {
    /// Every row of the kind that `pick` names, the document's first.
    fn all<T>(&self, pick: impl Fn(&Rows) -> &'static [T]) -> Vec<&'static T> {
        let quoted = self.seed.iter().map(|(_, rows)| rows);
        quoted.chain([&self.added]).flat_map(pick).collect()
    }
}

fn lifecycle(name: &str) -> Lifecycle {
    let checked = builtin::get(name, &Overrides::new()).expect("it is built in");
    checked.unwrap_or_else(|problems| panic!("{problems}"))
}

/// Compares everything in a table with the lifecycle of its name.
fn compare(table: &Table) {
    let lifecycle = lifecycle(table.name);
    let roles: Vec<&str> =
        ["human", "system"].into_iter().chain(table.roles.iter().copied()).collect();
    assert_eq!(lifecycle.roles, roles);
    assert_eq!(lifecycle.state(lifecycle.initial).name, table.initial);
    compare_states(table, &lifecycle);
    compare_matrix(table, &lifecycle);
    differ("move", &moves_of(&lifecycle), &expected_moves(table));
    differ("bound", &bounds_of(&lifecycle), &expected_bounds(table));
    differ("activity", &activities_of(&lifecycle), &expected_activities(table));
    differ("counter", &counters_of(&lifecycle), &expected_counters(table));
}

fn compare_states(table: &Table, lifecycle: &Lifecycle) {
    let states: BTreeSet<String> =
        lifecycle.states.iter().map(|state| format!("{} is {}", state.name, state.kind)).collect();
    let expected = table.all(|rows| rows.states);
    let expected = expected.iter().map(|(name, kind)| format!("{name} is {kind}")).collect();
    differ("state", &states, &expected);
    let terminal = lifecycle
        .states
        .iter()
        .filter(|state| state.terminal)
        .map(|state| state.name.clone())
        .collect();
    differ(
        "terminal state",
        &terminal,
        &table.all(|rows| rows.terminal).into_iter().map(|name| (*name).to_owned()).collect(),
    );
    for state in &lifecycle.states {
        let goes_on = state.kind == StateKind::Done && !state.terminal;
        assert_eq!(state.provisional, goes_on, "{} is done for the time being", state.name);
    }
    let required = lifecycle.states.iter().flat_map(|state| {
        let fields = state.requires.iter().map(|requirement| requirement.field.as_str());
        numbered(fields).map(|field| format!("{} requires {field}", state.name))
    });
    let mut wanted: BTreeMap<Text, Vec<Text>> = BTreeMap::new();
    for (state, fields) in table.all(|rows| rows.requires) {
        wanted.entry(state).or_default().extend(*fields);
    }
    let expected = wanted.into_iter().flat_map(|(state, fields)| {
        numbered(fields.into_iter()).map(move |field| format!("{state} requires {field}"))
    });
    differ("requirement", &required.collect(), &expected.collect());
    let with_effects = lifecycle.states.iter().filter(|state| !state.on_entry.is_empty());
    let effects = with_effects.map(|state| {
        let words: Vec<&str> = state.on_entry.iter().map(|effect| effect_word(*effect)).collect();
        format!("{} on entry: {}", state.name, words.join(", "))
    });
    let expected = table.all(|rows| rows.effects);
    let expected = expected.iter().map(|(state, words)| format!("{state} on entry: {words}"));
    differ("effect", &effects.collect(), &expected.collect());
    for state in &lifecycle.states {
        assert!(!state.about.is_empty(), "{} says nothing about itself", state.name);
        assert_eq!(state.about.lines().count(), 1, "{} says more than a line", state.name);
    }
}

/// Each name with how often it has come so far, so that two requirements on one field count as two.
fn numbered<'a>(names: impl Iterator<Item = &'a str>) -> impl Iterator<Item = String> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    names.map(move |name| {
        let times = seen.entry(name).or_default();
        *times += 1;
        format!("{name} ({times})")
    })
}

fn effect_word(effect: EntryEffect) -> &'static str {
    match effect {
        EntryEffect::Notify => "notify",
        EntryEffect::Alert => "alert",
        EntryEffect::CleanUp => "clean_up",
        EntryEffect::TellParent => "tell_parent",
        EntryEffect::LeadChildren => "lead_children",
    }
}

/// Every state × state × role, with `[prior]` as a column of its own.
fn compare_matrix(table: &Table, lifecycle: &Lifecycle) {
    let columns: Vec<&str> =
        lifecycle.states.iter().map(|state| state.name.as_str()).chain([PRIOR]).collect();
    let (moves, timed) = (table.all(|rows| rows.moves), table.all(|rows| rows.timed));
    let mut wrong = Vec::new();
    for from in &lifecycle.states {
        for to in &columns {
            for (role, role_name) in lifecycle.roles.iter().enumerate() {
                let is = lifecycle.transitions.iter().any(|row| {
                    lifecycle.state(row.from).name == from.name
                        && lifecycle.target_name(row.to) == *to
                        && row.roles.iter().any(|id| usize::from(id.0) == role)
                });
                let by_hand = |row: &&Move| {
                    row.0 == from.name && row.1 == *to && row.3.contains(&role_name.as_str())
                };
                let by_clock =
                    |row: &&Timed| row.0 == from.name && row.1 == *to && role_name == "system";
                let should = moves.iter().any(by_hand) || timed.iter().any(by_clock);
                if is != should {
                    let verdict = if is {
                        "allowed, but not in the table"
                    } else {
                        "in the table, but refused"
                    };
                    wrong.push(format!("{} → {to} by {role_name}: {verdict}", from.name));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differs in {} cells:\n{}",
        table.name,
        wrong.len(),
        wrong.join("\n")
    );
}

fn differ(what: &str, is: &BTreeSet<String>, should: &BTreeSet<String>) {
    let extra = is.difference(should).map(|line| format!("  not in the table: {line}"));
    let missing = should.difference(is).map(|line| format!("  only in the table: {line}"));
    let lines: Vec<String> = extra.chain(missing).collect();
    assert!(lines.is_empty(), "{what}:\n{}", lines.join("\n"));
}

fn moves_of(lifecycle: &Lifecycle) -> BTreeSet<String> {
    let rows = lifecycle.transitions.iter().filter(|row| row.timeout.is_none());
    let spelled = rows.flat_map(|row| {
        let (from, to) = (&lifecycle.state(row.from).name, lifecycle.target_name(row.to));
        let wants = wants_and_changes(lifecycle, row);
        let spell = move |role: &RoleId| {
            let role = lifecycle.role_name(*role);
            format!("{from} → {to} on {} by {role}: {wants}", row.trigger)
        };
        row.roles.iter().map(spell).collect::<Vec<_>>()
    });
    spelled.collect()
}

fn expected_moves(table: &Table) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for (from, to, trigger, roles, wants) in table.all(|rows| rows.moves) {
        lines.extend(
            roles.iter().map(|role| format!("{from} → {to} on {trigger} by {role}: {wants}")),
        );
    }
    lines
}

/// `if FIELD…; set FIELD=VALUE…; compute FIELD…; clear FIELD…; count COUNTER…; reset COUNTER…; keep
/// FIELD…`, without what is empty. Of a guard only the field is shown: its meaning is for the tests
/// that play.
fn wants_and_changes(lifecycle: &Lifecycle, row: &Transition) -> String {
    let changes = &row.changes;
    let counters =
        |ids: &[CounterId]| ids.iter().map(|id| lifecycle.counter(*id).name.clone()).collect();
    let literal = |(name, value): (&String, &Value)| match value {
        Value::String(text) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    };
    let parts: [(&str, Vec<String>); 7] = [
        ("if", row.guards.iter().map(|guard| guard.field.clone()).collect()),
        ("set", changes.set.iter().map(literal).collect()),
        ("compute", changes.compute.keys().cloned().collect()),
        ("clear", changes.clear.clone()),
        ("count", counters(&changes.count)),
        ("reset", counters(&changes.reset)),
        ("keep", changes.keeps.clone()),
    ];
    let parts = parts.into_iter().filter(|(_, names)| !names.is_empty());
    parts.map(|(word, names)| format!("{word} {}", names.join(", "))).collect::<Vec<_>>().join("; ")
}

fn bounds_of(lifecycle: &Lifecycle) -> BTreeSet<String> {
    let bounds = lifecycle.transitions.iter().filter_map(|row| {
        let Timeout { time, since } = row.timeout?;
        let (from, to) = (&lifecycle.state(row.from).name, lifecycle.target_name(row.to));
        let changes = wants_and_changes(lifecycle, row);
        Some(format!(
            "{from} → {to} on {} after {} ms since {since:?}: {changes}",
            row.trigger, time.0
        ))
    });
    bounds.collect()
}

fn expected_bounds(table: &Table) -> BTreeSet<String> {
    let bounds = table.all(|rows| rows.timed).into_iter().map(
        |(from, to, trigger, time, since, changes)| {
            let time: Span = time.parse().expect("a span of time");
            format!("{from} → {to} on {trigger} after {} ms since {since:?}: {changes}", time.0)
        },
    );
    bounds.collect()
}

fn activities_of(lifecycle: &Lifecycle) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for state in &lifecycle.states {
        let Some(does) = &state.does else { continue };
        let activity = does.activity.as_str();
        for (outcome, route) in &does.outcomes {
            lines.insert(format!("{} does {activity}: {outcome} → {}", state.name, written(route)));
        }
        let otherwise = does.otherwise.iter().map(|route| ("otherwise", written(route)));
        let offers = does.offers.iter().map(|(action, to)| (action.as_str(), to.clone()));
        for (answer, to) in otherwise.chain(offers) {
            lines.insert(format!("{} does {activity}: {answer} → {to}", state.name));
        }
    }
    lines
}

/// A route as a lifecycle writes it.
fn written(route: &Route) -> String {
    match route {
        Route::Trigger(trigger) => trigger.clone(),
        Route::Again(None) => "again".to_owned(),
        Route::Again(Some(trigger)) => format!("again {trigger}"),
    }
}

fn expected_activities(table: &Table) -> BTreeSet<String> {
    let states = table.all(|rows| rows.does);
    states
        .into_iter()
        .flat_map(|(state, activity, routes)| {
            routes
                .iter()
                .map(move |(outcome, to)| format!("{state} does {activity}: {outcome} → {to}"))
        })
        .collect()
}

fn counters_of(lifecycle: &Lifecycle) -> BTreeSet<String> {
    let counters = lifecycle.counters.iter();
    counters
        .map(|counter| {
            let then = counter.then.map(|id| lifecycle.state(id).name.as_str());
            format!("{} up to {:?} then {then:?}", counter.name, counter.limit)
        })
        .collect()
}

fn expected_counters(table: &Table) -> BTreeSet<String> {
    table
        .all(|rows| rows.counters)
        .into_iter()
        .map(|(name, limit, then)| format!("{name} up to {limit:?} then {then:?}"))
        .collect()
}

fn tables() -> [Table; 9] {
    [
        autonomous::TABLE,
        leaf::table(),
        mission::TABLE,
        step::TABLE,
        workflow::TABLE,
        review::TABLE,
        judged::TABLE,
        supervised::TABLE,
        budget::TABLE,
    ]
}

#[test]
fn every_built_in_lifecycle_is_its_table() {
    let known: BTreeSet<&str> = builtin::SOURCES.iter().map(|(name, _)| *name).collect();
    assert_eq!(tables().iter().map(|table| table.name).collect::<BTreeSet<_>>(), known);
    tables().iter().for_each(compare);
}

/// A row stands either with the words of the document that state it, or with what we added.
#[test]
fn no_row_is_both_quoted_and_added() {
    for table in tables() {
        let of = |rows: &Rows| {
            let only = Table { seed: &[], pending: &[], added: *rows, ..table };
            let mut lines = expected_moves(&only);
            lines.extend(expected_bounds(&only));
            lines.extend(expected_activities(&only));
            lines.extend(expected_counters(&only));
            lines.extend(rows.states.iter().map(|(state, _)| (*state).to_owned()));
            lines
        };
        let mut known = of(&table.added);
        for (says, rows) in table.seed {
            let own = of(rows);
            let twice: Vec<&String> = own.intersection(&known).collect();
            assert!(twice.is_empty(), "{}: {says}: stands twice: {twice:?}", table.name);
            known.extend(own);
        }
    }
}

/// When the row comes, it moves from the list of pending ones to the rows of its quote.
#[test]
fn what_is_pending_is_not_in_the_lifecycle() {
    for table in tables() {
        let lifecycle = lifecycle(table.name);
        let triggered = |from: &str, to: &str, trigger: &str, role: &str| {
            lifecycle.transitions.iter().any(|row| {
                lifecycle.state(row.from).name == from
                    && lifecycle.target_name(row.to) == to
                    && row.trigger == trigger
                    && row.roles.iter().any(|id| lifecycle.role_name(*id) == role)
            })
        };
        for (says, rows, part) in table.pending {
            for (from, to, trigger, roles) in *rows {
                let there = roles.iter().any(|role| triggered(from, to, trigger, role));
                let row = format!("{}: {from} → {to} on {trigger}", table.name);
                assert!(!there, "{row} is there now, so {part} must drive it: {says}");
            }
        }
    }
}

/// Otherwise a project's cancel, retry and feedback would need another field name in every
/// lifecycle.
#[test]
fn every_lifecycle_has_a_reason_and_no_requirement_speaks_of_a_move() {
    for (name, _) in builtin::SOURCES {
        let lifecycle = lifecycle(name);
        assert!(lifecycle.fields.contains_key("reason"), "{name}");
        for requirement in lifecycle.states.iter().flat_map(|state| &state.requires) {
            let of_the_move = |name: &ResolvedName| {
                matches!(
                    name,
                    ResolvedName::ActorName
                        | ResolvedName::ActorRole
                        | ResolvedName::Now
                        | ResolvedName::Detail
                        | ResolvedName::Outcome
                )
            };
            assert!(!requirement.that.names().any(of_the_move), "{name}: {}", requirement.message);
        }
    }
}

/// A run that ends must never leave its task stuck, whatever the outcome and without any field.
#[test]
fn every_outcome_of_an_agent_moves_the_task_on() {
    let mut tried = 0;
    for (name, _) in builtin::SOURCES {
        let lifecycle = lifecycle(name);
        for (state, number) in lifecycle.states.iter().zip(0_u16..) {
            let Some(does) = state.does.as_ref().filter(|does| does.activity == Activity::Agent)
            else {
                continue;
            };
            let again = |outcome: &Outcome| does.route(*outcome) == Some(&Route::Again(None));
            let outcomes = Activity::Agent.outcomes().iter().copied().chain([Outcome::Exhausted]);
            for outcome in outcomes.filter(|outcome| !again(outcome)) {
                let given = |field: &String| match field.as_str() {
                    "assigneeIds" => json!(["al"]),
                    "workPlan" => json!({ "bullets": ["look", "change", "test"] }),
                    _ => json!("given"),
                };
                let required = state.requires.iter().map(|requirement| &requirement.field);
                let fields = required.map(|field| (field.clone(), given(field)));
                let mut fields: serde_json::Map<String, Value> = fields.collect();
                // The agent of a state may be there for some tasks only.
                if lifecycle.fields.contains_key("automatic") {
                    fields.insert("automatic".to_owned(), json!(true));
                }
                let mut play = Play::imported(name, StateId(number), Value::Object(fields));
                play.claim(&format!("{}:al", lifecycle.roles[2])).expect("an agent is wanted here");
                // What the failure policy says.
                let retry = state.does.as_ref().and_then(|does| does.route(outcome));
                let retry = lifecycle.fields.contains_key("retry_at")
                    && matches!(retry, Some(Route::Again(_)));
                let retry = retry.then(|| json!({ "retry_at": "2030-01-01T00:00:00Z" }));
                play.end_run(outcome, "", retry.unwrap_or_default());
                assert_ne!(
                    play.trigger(),
                    outcome.as_str(),
                    "{name}: {outcome} leaves it in {}",
                    state.name
                );
                tried += 1;
            }
        }
    }
    assert!(tried > 30, "only {tried} outcomes were tried");
}
