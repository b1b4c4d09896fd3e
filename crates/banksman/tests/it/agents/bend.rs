//! Recordings that were bent: what a stream may look like after a bad disk, a kill or another version of the agent.

use banksman_core::receipt::Exit;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::Index;

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
    pub(super) fn apply(&self, lines: &mut Vec<Vec<u8>>) {
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

pub(super) fn exit() -> impl Strategy<Value = Exit> {
    prop_oneof![3 => Just(code(0)), 1 => (0..256).prop_map(code), 1 => (1..32).prop_map(signal)]
}
