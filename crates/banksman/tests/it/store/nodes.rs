//! Nodes: what each says about itself.

use std::collections::BTreeSet;

use banksman::store::Node;
use banksman::store::nodes::Changed;
use banksman_core::schedule::Worker;

use super::acts::{MINUTE, NOON, node, worker};
use super::on_both;
use super::world::World;

on_both!(a_node_is_what_it_last_said, only_other_workers_are_news);

fn a_node_is_what_it_last_said(world: &World) {
    let store = world.open();
    let capable = Worker {
        capabilities: BTreeSet::from(["größe".to_owned(), "docs".to_owned()]),
        roles: BTreeSet::from(["worker".to_owned()]),
        ..worker("ada")
    };
    store.put_node(&node("n2", &[])).unwrap();
    store.put_node(&node("n1", &[])).unwrap();
    let last = Node { capacity: 7, seen_at: NOON.plus(MINUTE), ..node("n1", &[capable]) };
    store.put_node(&last).unwrap();
    assert_eq!(world.open().nodes().unwrap(), [last, node("n2", &[])]);
}

fn only_other_workers_are_news(world: &World) {
    let store = world.open();
    let news = |node: &Node| store.put_node(node).unwrap();
    let first = node("n1", &[worker("ada")]);
    assert_eq!(news(&first), Changed { workers: true });
    assert_eq!(news(&first), Changed { workers: false });
    let alive = Node { capacity: 1, seen_at: NOON.plus(MINUTE), ..first };
    assert_eq!(news(&alive), Changed { workers: false });
    let grown = Node { workers: vec![worker("ada"), worker("bob")], ..alive };
    assert_eq!(news(&grown), Changed { workers: true });
}
