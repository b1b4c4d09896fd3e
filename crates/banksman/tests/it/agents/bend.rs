//! Recordings that were bent: what a stream may look like after a bad disk, a kill or another
//! version of the agent; and JSON of any shape under the names that the adapters look for.

use banksman_core::receipt::ProcessExit;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::{Index, select};
use serde_json::{Map, Value};

use super::{code, signal};

#[derive(Debug, Clone)]
pub(super) enum Bend {
    Drop(Index),
    Double(Index),
    Swap(Index, Index),
    Cut(Index, Index),
    Flip(Index, Index, u8),
    Insert(Index, String),
}

impl Bend {
    fn apply(&self, lines: &mut Vec<Vec<u8>>) {
        if lines.is_empty() {
            return;
        }
        let of = lines.len();
        match self {
            Self::Drop(at) => drop(lines.remove(at.index(of))),
            Self::Double(at) => lines.push(lines[at.index(of)].clone()),
            Self::Swap(one, other) => lines.swap(one.index(of), other.index(of)),
            Self::Cut(at, to) => {
                let line = &mut lines[at.index(of)];
                line.truncate(to.index(line.len() + 1));
            }
            Self::Flip(at, byte, mask) => {
                let line = &mut lines[at.index(of)];
                if !line.is_empty() {
                    let byte = byte.index(line.len());
                    line[byte] ^= mask;
                }
            }
            Self::Insert(at, text) => lines.insert(at.index(of), text.clone().into_bytes()),
        }
    }
}

pub(super) fn bend() -> impl Strategy<Value = Bend> {
    let at = any::<Index>;
    prop_oneof![
        at().prop_map(Bend::Drop),
        at().prop_map(Bend::Double),
        (at(), at()).prop_map(|(one, other)| Bend::Swap(one, other)),
        (at(), at()).prop_map(|(line, to)| Bend::Cut(line, to)),
        (at(), at(), 1_u8..).prop_map(|(line, byte, mask)| Bend::Flip(line, byte, mask)),
        (at(), ".{0,40}").prop_map(|(line, text)| Bend::Insert(line, text)),
    ]
}

/// The stream with all of this done to it.
pub(super) fn bent(stream: &str, bends: &[Bend]) -> String {
    let mut lines: Vec<Vec<u8>> = stream.lines().map(|line| line.as_bytes().to_vec()).collect();
    bends.iter().for_each(|bend| bend.apply(&mut lines));
    String::from_utf8_lossy(&lines.join(&b'\n')).into_owned()
}

/// JSON whose members have the names that matter, and values that matter or of any kind.
pub(super) fn event(words: &'static str, keys: &'static str) -> impl Strategy<Value = Value> {
    let one_of = |list: &'static str| select(list.split_whitespace().collect::<Vec<_>>());
    let leaf = prop_oneof![
        one_of(words).prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(5, 40, 8, move |inner| {
        let members = vec((one_of(keys).prop_map(str::to_owned), inner.clone()), 0..8);
        let object = members.prop_map(|members| Value::Object(Map::from_iter(members)));
        prop_oneof![3 => object, 1 => vec(inner, 0..4).prop_map(Value::Array)]
    })
}

pub(super) fn exit() -> impl Strategy<Value = ProcessExit> {
    prop_oneof![3 => Just(code(0)), 1 => (0..256).prop_map(code), 1 => (1..32).prop_map(signal)]
}
