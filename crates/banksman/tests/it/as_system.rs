//! Moves that only Banksman itself may make, for scenes that an engine would take long to reach.

use std::path::Path;

use banksman::ops::Session;
use banksman::ops::tasks::{MoveRequest, move_task};
use banksman::store::Store;
use banksman::store::conn::{Options, Target};
use serde_json::{Map, Value};

/// `fields` are written as for `--set`.
pub(crate) fn move_as_system(
    store: &Path,
    id: &str,
    (to, trigger): (&str, Option<&str>),
    fields: &[&str],
) {
    let store = Store::open(&Target::Sqlite(store.to_owned()), &Options::default()).unwrap();
    let set = |field: &&str| {
        let (name, value) = field.split_once('=').unwrap();
        (name.to_owned(), Value::from(value))
    };
    let request = MoveRequest {
        to: Some(to.to_owned()),
        trigger: trigger.map(str::to_owned),
        fields: fields.iter().map(set).collect::<Map<_, _>>(),
        ..MoveRequest::default()
    };
    let now = banksman::clock::now();
    move_task(&Session::system(store), id.parse().unwrap(), &request, now).unwrap();
}
