//! Which packets other stages select, by the laws of loss: a percentage, with or without correlation, or every nth.

use super::{Correlated, EveryNth, Loss, LossLaw, Percentage};
use crate::ModelError;
use crate::law::{Words, check_percentage, refuse};

/// The laws of a selection, in display order.
pub(in crate::impairment) const SELECTIONS: [&str; 2] = ["percentage", "every_nth"];
/// Their one-line form.
macro_rules! selection_form {
    () => {
        "P% [CORRELATION%] | every N"
    };
}
pub(in crate::impairment) use selection_form;

/// The fields of a selection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::impairment) struct Selection {
    pub(in crate::impairment) percentage: Option<f64>,
    pub(in crate::impairment) every_nth: Option<u64>,
    pub(in crate::impairment) correlation_percentage: Option<f64>,
}

impl Selection {
    /// Reads its words.
    pub(in crate::impairment) fn read(words: &mut Words) -> Result<Self, ModelError> {
        if words.took("every") {
            return Ok(Self { every_nth: Some(words.value()?), ..Self::default() });
        }
        let percentage = Some(words.percent()?);
        let mut ahead = words.clone();
        let correlation_percentage =
            if words.peek().is_some() { ahead.percent_if_number()? } else { None };
        if correlation_percentage.is_some() {
            *words = ahead;
        }
        Ok(Self { percentage, correlation_percentage, ..Self::default() })
    }

    /// Its one-line form.
    pub(in crate::impairment) fn text(&self) -> String {
        match (self.every_nth, self.correlation_percentage) {
            (Some(n), _) => format!("every {n}"),
            (None, Some(correlation)) => format!("{}% {correlation}%", self.percent()),
            (None, None) => format!("{}%", self.percent()),
        }
    }

    fn percent(&self) -> f64 {
        self.percentage.unwrap_or_default()
    }

    /// Checks it; `at` is the path of the slot.
    pub(in crate::impairment) fn check(&self, at: &str) -> Result<(), ModelError> {
        let laws = [self.percentage.is_some(), self.every_nth.is_some()];
        if laws.iter().filter(|is_set| **is_set).count() != 1 {
            let given = if laws[0] { "both" } else { "neither" };
            return refuse(at, "", given, "one of percentage, every_nth");
        }
        if let Some(percentage) = self.percentage {
            check_percentage(at, "percentage", percentage)?;
        }
        if self.every_nth == Some(0) {
            return refuse(at, "every_nth", 0, "1 or more");
        }
        match self.correlation_percentage {
            Some(given) if self.every_nth.is_some() => {
                refuse(at, "correlation_percentage", given, "none with every_nth")
            }
            Some(given) if !(0.0..100.0).contains(&given) => {
                refuse(at, "correlation_percentage", given, "0 to below 100 percent")
            }
            _ => Ok(()),
        }
    }

    /// The loss law that selects the same packets.
    fn as_loss(&self) -> Loss {
        match (self.every_nth, self.correlation_percentage) {
            (Some(n), _) => Loss { every_nth: Some(EveryNth(n)), ..Loss::default() },
            (None, Some(correlation_percentage)) => {
                let law = Correlated { percentage: self.percent(), correlation_percentage };
                Loss { correlated: Some(law), ..Loss::default() }
            }
            (None, None) => {
                Loss { percentage: Some(Percentage(self.percent())), ..Loss::default() }
            }
        }
    }

    /// The running law, before its first packet; `None` if it selects no packet.
    pub(in crate::impairment) fn start(&self) -> Option<LossLaw> {
        LossLaw::of(&self.as_loss()).filter(|_| self.mean() > 0.0)
    }

    /// Fraction of packets that it selects.
    pub(in crate::impairment) fn mean(&self) -> f64 {
        self.as_loss().mean().unwrap_or_default()
    }
}
