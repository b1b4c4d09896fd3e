//! Points in time and durations, in milliseconds. The core never reads a clock.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Milliseconds since 1970-01-01T00:00Z. Displayed as RFC 3339 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(pub i64);

/// A duration in milliseconds; never negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(pub i64);

/// How long a machine has been awake since it was started. It does not grow while the machine is
/// suspended, and does not jump when somebody sets its clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwakeTime {
    /// Names the start of the machine; times since different starts cannot be compared.
    pub boot: String,
    pub time: Span,
}

impl Instant {
    #[must_use]
    pub fn plus(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    pub fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0).max(0))
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(timestamp) => write!(f, "{timestamp}"),
            Err(_) => write!(f, "@{}ms", self.0),
        }
    }
}

impl FromStr for Instant {
    type Err = jiff::Error;

    /// Reads everything that is displayed, so that no number in an agent's output makes a receipt
    /// that cannot be read.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let beyond = text.strip_prefix('@').and_then(|text| text.strip_suffix("ms"));
        if let Some(millis) = beyond.and_then(|millis| millis.parse().ok()) {
            return Ok(Self(millis));
        }
        text.parse::<jiff::Timestamp>().map(|timestamp| Self(timestamp.as_millisecond()))
    }
}

/// A text that is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a duration; write a number and a unit, such as 30s, 10min, 2h or 7d")]
pub struct NotASpan(pub String);

const UNITS: [(&str, i64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1)];

impl FromStr for Span {
    type Err = NotASpan;

    fn from_str(text: &str) -> Result<Self, NotASpan> {
        let refuse = || NotASpan(text.chars().take(64).collect());
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let number: i64 = text[..digits].parse().map_err(|_| refuse())?;
        let unit = UNITS.iter().find(|(name, _)| *name == &text[digits..]);
        let (_, millis) = unit.ok_or_else(refuse)?;
        number.checked_mul(*millis).map(Self).ok_or_else(refuse)
    }
}

impl fmt::Display for Span {
    /// In the largest unit that divides the duration: `90min`, `7d`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = UNITS.iter().find(|(_, millis)| self.0 != 0 && self.0 % millis == 0);
        let (unit, millis) = fits.unwrap_or(&("s", 1_000));
        write!(f, "{}{unit}", self.0 / millis)
    }
}

macro_rules! serialized_as_text {
    ($($Type:ty),+) => {$(
        impl Serialize for $Type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $Type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    )+};
}

serialized_as_text!(Instant, Span);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_and_print() {
        for (text, millis) in
            [("30s", 30_000), ("10min", 600_000), ("2h", 7_200_000), ("7d", 604_800_000)]
        {
            assert_eq!(text.parse(), Ok(Span(millis)));
            assert_eq!(Span(millis).to_string(), text);
        }
        assert_eq!(Span(5_400_000).to_string(), "90min");
        assert_eq!(Span(1_500).to_string(), "1500ms");
        assert_eq!(Span(0).to_string(), "0s");
    }

    #[test]
    fn a_span_needs_a_number_and_a_unit() {
        for text in ["", "7", "d", "7 d", "-1h", "7days", "99999999999999999d", "７d"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }

    #[test]
    fn instants_are_rfc_3339_in_utc() {
        let instant = Instant(1_707_734_400_000);
        assert_eq!(instant.to_string(), "2024-02-12T10:40:00Z");
        assert_eq!("2024-02-12T11:40:00+01:00".parse::<Instant>().expect("valid"), instant);
    }

    proptest::proptest! {
        #[test]
        fn every_instant_is_read_back(millis: i64, scale in 0..20_u32) {
            let instant = Instant(millis >> scale);
            proptest::prop_assert_eq!(instant.to_string().parse::<Instant>().ok(), Some(instant));
        }
    }
}
