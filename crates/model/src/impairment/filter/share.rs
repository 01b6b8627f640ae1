//! A share of the packets or connections, by which traffic is divided among parallel paths.

use std::fmt;
use std::str::FromStr;

use crate::ModelError;
use crate::impairment::value::word_serde;

/// A share of what passes: `30%` is the first 30 per cent, `30%-100%` the rest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Where it begins, per cent, from 0.
    pub from: f64,
    /// Where it ends, per cent, above `from`, to 100.
    pub to: f64,
}

const SHARE_FORM: &str =
    "a share of all, 0% to 100%: 30%, or a part from one to the other: 30%-100%";

/// Packets and connections have positions below this.
const WHOLE: f64 = 4_294_967_296.0;

impl Share {
    /// The first and last position of the share, of 2^32 positions; `None` if it is smaller than one.
    #[must_use]
    pub fn positions(self) -> Option<(u32, u32)> {
        let at = |percentage: f64| (percentage / 100.0 * WHOLE).round() as u64;
        let (from, to) = (at(self.from), at(self.to));
        (from < to).then(|| (from as u32, (to - 1) as u32))
    }
}

impl FromStr for Share {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let number = |part: &str| part.trim().strip_suffix('%')?.trim_end().parse::<f64>().ok();
        let read = match text.split_once('-') {
            Some((from, to)) => number(from).zip(number(to)),
            None => number(text).map(|to| (0.0, to)),
        };
        let valid = read.filter(|(from, to)| 0.0 <= *from && from < to && *to <= 100.0);
        valid.map(|(from, to)| Share { from, to }).ok_or_else(|| ModelError::Value {
            what: "share",
            given: text.into(),
            accepted: SHARE_FORM,
        })
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.from {
            0.0 => write!(f, "{}%", self.to),
            from => write!(f, "{from}%-{}%", self.to),
        }
    }
}

word_serde!(Share, SHARE_FORM, ["30%", "30%-100%"]);
