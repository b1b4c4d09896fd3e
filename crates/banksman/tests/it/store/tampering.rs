//! Tampering: whatever is changed behind the store's back is found, and the finding names the task
//! and the record.

use banksman::store::{Add, Store, hex};
use banksman_core::ids::TaskId;
use banksman_core::time::Instant;

use super::acts::{NOON, add, added, apply, ask, key, load, to_asking};
use super::on_both_damaging;
use super::raw::Raw;
use super::world::{World, findings};

on_both_damaging!(
    a_changed_record_is_found,
    a_lost_record_is_found,
    records_out_of_order_are_found,
    a_record_of_another_task_is_found,
    a_row_changed_behind_its_history_is_found,
    a_history_without_its_task_is_found,
    a_task_that_vanished_with_its_history_changes_the_digest,
    a_history_that_was_written_anew_changes_the_digest,
);

/// A store in which one task between two others has a long history.
struct Evidence {
    store: Store,
    raw: Raw,
    task: TaskId,
    /// Records of the task.
    records: i64,
    digest: String,
}

fn evidence(world: &World) -> Evidence {
    let store = world.open();
    let before = add(&store, "before");
    apply(&store, before, ask("human:kim", "parked", &[]), NOON);
    let mut new = load("lift").new;
    new.body = "by the book".to_owned();
    new.parent = Some(before);
    new.batch = Some("friday".to_owned());
    new.tags = vec!["red".to_owned()];
    let task = added(&store, Add { new, key: key("k1", "lift"), ..load("") }).stored.task.id;
    super::acts::claim_first(&store, task, NOON);
    let lifted = ask("worker:w1", "checking", &[("pr_url", "https://forge/1")]);
    store.apply(task, lifted, key("k2", "lifted"), NOON).expect("it is lifted");
    apply(&store, task, ask("crane:c1", "lifting", &[]), NOON);
    apply(&store, task, ask("human:kim", "held", &[("waits_for", "wind")]), NOON);
    to_asking(&store, "after");
    let report = store.verify_history().expect("the histories are read");
    assert_eq!(findings(&report), [""; 0]);
    let mut raw = world.raw();
    raw.lift_constraints();
    Evidence { store, raw, task, records: 5, digest: report.digest }
}

impl Evidence {
    fn findings(&self) -> Vec<String> {
        findings(&self.store.verify_history().expect("tampering is no failure"))
    }

    /// Runs the statement, finds what it did, and runs the second one to undo it.
    fn assert_found(&mut self, tamper: &str, undo: &str, expected: &[String]) {
        self.raw.run(tamper);
        let found = self.findings();
        for expected in expected {
            assert!(found.contains(expected), "{tamper}\n  found {found:#?}\n  not {expected}");
        }
        let other = format!("{}: ", self.task);
        assert!(found.iter().all(|finding| finding.starts_with(&other)), "{tamper}: {found:?}");
        self.raw.run(undo);
        assert_eq!(self.findings(), [""; 0], "{undo}");
    }

    /// A column of the row that the condition names, as it is written in a statement.
    fn literal(&mut self, table: &str, column: &str, at: &str) -> String {
        let value = self.raw.value(&format!("SELECT {column} FROM {table} WHERE {at}"));
        match value {
            None => "NULL".to_owned(),
            Some(bytes) if bytes.starts_with("\\x") => self.raw.bytes(&bytes[2..]),
            Some(text) => format!("'{}'", text.replace('\'', "''")),
        }
    }
}

/// The same text with its first, its middle or its last character changed by one bit.
fn flipped(text: &str, place: usize) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let at = place * (bytes.len() - 1) / 2;
    bytes[at] ^= 1;
    String::from_utf8(bytes).expect("all of it is ASCII")
}

/// The same for bytes that are written as hex digits.
fn flipped_hex(digits: &str, place: usize) -> String {
    let at = place * (digits.len() - 1) / 2;
    let digit = u8::from_str_radix(&digits[at..=at], 16).expect("a hex digit") ^ 1;
    format!("{}{digit:x}{}", &digits[..at], &digits[at + 1..])
}

fn a_changed_record_is_found(world: &World) {
    let mut evidence = evidence(world);
    let columns = [
        "from_state",
        "to_state",
        "trigger_name",
        "actor",
        "idempotency_key",
        "fields",
        "prev",
        "hash",
    ];
    for seq in 1..=evidence.records {
        let at = format!("task = {} AND seq = {seq}", evidence.task.0);
        for column in columns {
            let old = evidence.literal("audit", column, &at);
            let plain = evidence.raw.value(&format!("SELECT {column} FROM audit WHERE {at}"));
            for place in 0..3 {
                let new = match plain.as_deref() {
                    None => "'x'".to_owned(),
                    Some(bytes) if bytes.starts_with("\\x") => {
                        evidence.raw.bytes(&flipped_hex(&bytes[2..], place))
                    }
                    Some(text) => format!("'{}'", flipped(text, place).replace('\'', "''")),
                };
                let set = |value: &str| format!("UPDATE audit SET {column} = {value} WHERE {at}");
                evidence.raw.run(&set(&new));
                let found = evidence.findings();
                let named = format!("{}: record {seq} was changed", evidence.task);
                assert!(
                    found.iter().any(|line| line.starts_with(&named)),
                    "{column} {new}: {found:?}"
                );
                let others =
                    found.iter().filter(|line| !line.starts_with(&format!("{}:", evidence.task)));
                assert_eq!(others.count(), 0, "{found:?}");
                evidence.raw.run(&set(&old));
            }
        }
        let changed = format!("{}: record {seq} was changed: its hash does not fit", evidence.task);
        let ts = |sign| format!("UPDATE audit SET ts = ts {sign} 1 WHERE {at}");
        evidence.assert_found(&ts("+"), &ts("-"), &[changed]);
    }
}

fn a_lost_record_is_found(world: &World) {
    let mut evidence = evidence(world);
    let task = evidence.task;
    // Set aside under a number that no task has.
    let lose =
        |which: &str| format!("UPDATE audit SET task = -1 WHERE task = {} AND {which}", task.0);
    let find = format!("UPDATE audit SET task = {} WHERE task = -1", task.0);
    evidence.raw.run(&lose("seq = 1"));
    let found = evidence.findings();
    let missing = |seq: i64| {
        format!(
            "{task}: record {seq} does not follow the one before it: a record is missing or out of order"
        )
    };
    assert!(found.contains(&missing(2)), "{found:?}");
    assert!(found.contains(&format!("{task}: record 2 stands at place 1")), "{found:?}");
    evidence.raw.run(&find);
    for (which, expected) in [
        ("seq = 3", missing(4)),
        (
            "seq = 5",
            format!(
                "{task}: its history ends at record 4, which is not the one that the task names"
            ),
        ),
        (
            "seq > 3",
            format!(
                "{task}: its history ends at record 3, which is not the one that the task names"
            ),
        ),
        (
            "seq > 0",
            format!(
                "{task}: its history ends at record 0, which is not the one that the task names"
            ),
        ),
    ] {
        evidence.raw.run(&lose(which));
        let found = evidence.findings();
        assert!(found.contains(&expected), "{which}: {found:#?}");
        evidence.raw.run(&find);
    }
    evidence.raw.run(&format!("DELETE FROM audit WHERE task = {}", task.0));
    let found = evidence.findings();
    assert!(found.iter().all(|line| line.starts_with(&format!("{task}: "))), "{found:?}");
    assert!(!found.is_empty());
}

fn records_out_of_order_are_found(world: &World) {
    let mut evidence = evidence(world);
    let (id, task) = (evidence.task.0, evidence.task);
    let swap = format!(
        "UPDATE audit SET seq = 99 WHERE task = {id} AND seq = 3;
         UPDATE audit SET seq = 3 WHERE task = {id} AND seq = 4;
         UPDATE audit SET seq = 4 WHERE task = {id} AND seq = 99;"
    );
    let changed =
        [3, 4].map(|seq| format!("{task}: record {seq} was changed: its hash does not fit"));
    evidence.assert_found(&swap, &swap, &changed);
    let to = |from: i64, to: i64| {
        format!("UPDATE audit SET seq = {to} WHERE task = {id} AND seq = {from}")
    };
    let place = [format!("{task}: record 9 stands at place 5")];
    evidence.assert_found(&to(5, 9), &to(9, 5), &place);
}

fn a_record_of_another_task_is_found(world: &World) {
    let mut evidence = evidence(world);
    let (id, other) = (evidence.task.0, evidence.task.0 - 1);
    evidence
        .raw
        .run(&format!("UPDATE audit SET task = {other}, seq = 3 WHERE task = {id} AND seq = 5"));
    let found = evidence.findings();
    let forged = format!("t{other}: record 3 was changed: its hash does not fit");
    assert!(found.contains(&forged), "{found:?}");
    let lost =
        format!("t{id}: its history ends at record 4, which is not the one that the task names");
    assert!(found.contains(&lost), "{found:?}");
}

fn a_row_changed_behind_its_history_is_found(world: &World) {
    let mut evidence = evidence(world);
    let task = evidence.task;
    let says = |name: &str| format!("{task}: its {name} is not what its history says");
    let kind = format!("{task}: its kind or its group is not that of its state");
    let times = format!("{task}: its times are not what its history says");
    let held = "its history leads to held at version 5, the task is in";
    let cases = [
        ("state", "'checking'", kind.clone()),
        ("kind", "'done'", kind.clone()),
        ("state_group", "'none'", kind),
        ("created_at", "1", times.clone()),
        ("entered_at", "1", times.clone()),
        ("entered", "4", times),
        ("version", "6", format!("{task}: {held} held at version 6")),
        ("title", "'lower'", says("title")),
        ("project", "'dock'", says("project")),
        ("batch", "NULL", says("batch")),
        ("tags", "'[]'", says("tags")),
        ("priority", "3", says("priority")),
        ("parent", "NULL", says("parent")),
        ("prior", "'checking'", says("prior")),
        ("fields", "'{\"pr_url\":\"https://forge/2\",\"waits_for\":\"wind\"}'", says("pr_url")),
        (
            "fields",
            "'{\"pr_url\":\"https://forge/1\",\"waits_for\":\"wind\",\"reason\":\"x\"}'",
            says("reason"),
        ),
        ("fields", "'{\"waits_for\":\"wind\"}'", says("pr_url")),
        ("counters", "'[[2,0],[1,0]]'", says("lifts")),
        ("counters", "'[[1,0],[1,1]]'", says("revisions.renewed")),
        ("epoch", "0", says("epoch")),
        ("spent_runs", "0", says("spent")),
        ("spent_tokens", "1000", says("spent")),
        ("spent_cost_micros", "1", says("spent")),
    ];
    let at = format!("id = {}", task.0);
    for (column, value, expected) in cases {
        let old = evidence.literal("tasks", column, &at);
        let set = |value: &str| format!("UPDATE tasks SET {column} = {value} WHERE {at}");
        evidence.assert_found(&set(value), &set(&old), &[expected]);
    }
    let head = evidence.literal("tasks", "head", &at);
    let zero = evidence.raw.bytes(&"00".repeat(32));
    let ends =
        format!("{task}: its history ends at record 5, which is not the one that the task names");
    let set = |value: &str| format!("UPDATE tasks SET head = {value} WHERE {at}");
    evidence.assert_found(&set(&zero), &set(&head), &[ends]);
    let body = |text: &str| format!("UPDATE bodies SET body = '{text}' WHERE task = {}", task.0);
    evidence.assert_found(&body("by hand"), &body("by the book"), &[says("body")]);
}

fn a_history_without_its_task_is_found(world: &World) {
    let mut evidence = evidence(world);
    evidence.raw.run(&format!("DELETE FROM tasks WHERE id = {}", evidence.task.0));
    let expected = format!("{}: has a history but is not there", evidence.task);
    let checked = findings(&evidence.store.check().expect("the check runs"));
    assert_eq!((evidence.findings(), checked), (vec![expected.clone()], vec![expected]));
}

fn a_task_that_vanished_with_its_history_changes_the_digest(world: &World) {
    let mut evidence = evidence(world);
    assert_eq!(evidence.store.verify_history().unwrap().digest, evidence.digest);
    let id = evidence.task.0;
    for table in
        ["audit", "timers", "outbox", "runs", "artifacts", "decisions", "keys", "bodies", "edges"]
    {
        evidence.raw.run(&format!("DELETE FROM {table} WHERE task = {id}"));
    }
    evidence.raw.run(&format!("DELETE FROM tasks WHERE id = {id}"));
    let report = evidence.store.verify_history().unwrap();
    assert_eq!(findings(&report), [""; 0]);
    assert_ne!(report.digest, evidence.digest);
}

fn a_history_that_was_written_anew_changes_the_digest(world: &World) {
    let mut evidence = evidence(world);
    let mut last = evidence.store.history(evidence.task, 4).unwrap().remove(0);
    last.ts = Instant(last.ts.0 + 1);
    let hash = evidence.raw.bytes(&hex(&last.computed_hash()));
    let id = evidence.task.0;
    evidence.raw.run(&format!(
        "UPDATE audit SET ts = ts + 1, hash = {hash} WHERE task = {id} AND seq = 5;
         UPDATE tasks SET head = {hash}, entered_at = entered_at + 1 WHERE id = {id};"
    ));
    let report = evidence.store.verify_history().unwrap();
    assert_eq!(findings(&report), [""; 0]);
    assert_ne!(report.digest, evidence.digest);
}
