//! Questions and kept values: opened, settled and kept in the transaction of the move that asks, answers or keeps.

use banksman::store::hex;
use banksman::store::query::Decision;
use banksman_core::lifecycle::Outcome;
use banksman_core::machine::{Event, Finish};
use banksman_core::time::Span;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::acts::{
    DAY, MINUTE, NOON, add, apply, ask, claim_first, fields, finish, refused, to_asking,
};
use super::on_both;
use super::world::World;

on_both!(
    a_question_is_opened_with_the_state_that_asks,
    an_answer_settles_the_question,
    a_deadline_settles_the_question,
    kept_values_stay_as_they_were,
);

fn a_question_is_opened_with_the_state_that_asks(world: &World) {
    let store = world.open();
    let id = to_asking(&store, "lift");
    let other = to_asking(&store, "another");
    let open = store.decisions(0).unwrap();
    let [first, second] = open.as_slice() else { panic!("{open:?}") };
    let expected = Decision {
        id: first.id,
        task: id,
        title: "lift".to_owned(),
        seq: 4,
        asks: "Shall it be set down?".to_owned(),
        offers: vec![
            ("yes".to_owned(), "approve".to_owned()),
            ("no".to_owned(), "changes".to_owned()),
        ],
        opened_at: NOON,
        deadline: Some(NOON.plus(Span(7 * DAY.0))),
    };
    assert_eq!(*first, expected);
    assert_eq!(second.task, other);
    assert_eq!(store.detail(id).unwrap().decision.as_ref(), Some(first));
    assert_eq!(store.decisions(first.id.0).unwrap(), open[1..]);
    assert_eq!(store.overview().unwrap().open_decisions, 2);
}

fn an_answer_settles_the_question(world: &World) {
    let store = world.open();
    let id = to_asking(&store, "lift");
    refused(store.apply(id, ask("human:kim", "lifting", &[]), None, NOON));
    assert_eq!(store.decisions(0).unwrap().len(), 1);
    let later = NOON.plus(MINUTE);
    apply(&store, id, ask("human:kim", "lifting", &[("feedback", "higher")]), later);
    assert_eq!(store.decisions(0).unwrap(), []);
    assert_eq!(store.detail(id).unwrap().decision, None);
    let settled = "SELECT settled_at, settled_by, settled_seq FROM decisions";
    let text = |text: &str| Some(text.to_owned());
    let row = [Some(later.0.to_string()), text("human:kim"), text("5")];
    assert_eq!(world.raw().rows(settled)[0], row);
    // Asked again, it is a new question, about the new version.
    apply(&store, id, ask("worker:w1", "checking", &[]), later);
    apply(&store, id, ask("crane:c1", "asking", &[]), later);
    let [decision] = store.decisions(0).unwrap().try_into().expect("one question");
    assert_eq!(decision.seq, 7);
    assert_eq!(world.raw().rows(settled)[0], row);
    apply(&store, id, ask("human:kim", "done", &[]), later);
    assert_eq!(store.overview().unwrap().open_decisions, 0);
}

fn a_deadline_settles_the_question(world: &World) {
    let store = world.open();
    to_asking(&store, "lift");
    store.fire_due(NOON.plus(Span(7 * DAY.0)), 10).unwrap();
    assert_eq!(store.decisions(0).unwrap(), []);
    let by = world.raw().value("SELECT settled_by FROM decisions");
    assert_eq!(by.as_deref(), Some("system"));
}

fn kept_values_stay_as_they_were(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    let lift = |url: &str, label: &str| {
        let epoch = claim_first(&store, id, NOON);
        let mut given = fields(&[("pr_url", url)]);
        given.insert("crate".to_owned(), json!({ "label": label, "count": 1 }));
        let end = Finish { fields: given, ..finish(epoch, Outcome::Succeeded) };
        apply(&store, id, Event::Finished(end), NOON);
    };
    lift("https://forge/1", "größe");
    apply(&store, id, ask("crane:c1", "lifting", &[]), NOON);
    lift("https://forge/2", "b");
    let artifacts = world.open().detail(id).unwrap().artifacts;
    let kept: Vec<_> =
        artifacts.iter().map(|kept| (kept.seq, kept.name.as_str(), kept.value.clone())).collect();
    let crate_of = |label: &str| json!({ "label": label, "count": 1 });
    let expected = [
        (3, "crate", crate_of("größe")),
        (3, "pr_url", json!("https://forge/1")),
        (6, "crate", crate_of("b")),
        (6, "pr_url", json!("https://forge/2")),
    ];
    assert_eq!(kept, expected);
    for artifact in artifacts {
        let text = artifact.value.to_string();
        assert_eq!(artifact.hash, hex(&Sha256::digest(text.as_bytes())), "{text}");
    }
}
