//! A search: its trials are tests.

use weir_model::experiment::PublishedFigure;

use crate::scenario::search::{Ask, Terms, Trial, search};

use super::*;

impl<'d> Inner<'d, '_, '_> {
    pub(super) fn search(
        &self,
        step: &SearchStep,
        out: &mut StepOutcome,
    ) -> Result<(), ScenarioError> {
        let options = self.doing.options;
        let axes = check_axes(&step.over, self.name)?;
        let terms = terms(step, self.name)?;
        let statistics = ["min", "mean", "p50", "p99", "max"];
        let mut names: Vec<String> =
            statistics.iter().map(|s| format!("{s} one_way_delay")).collect();
        names.extend(
            [
                "sent_packets",
                "lost_packets",
                "loss",
                "sent_throughput",
                "sent_packet_rate",
                "throughput",
                "packet_rate",
            ]
            .map(Into::into),
        );
        let metrics = self.metrics(&names)?;
        let in_bits = terms.unit == "bits_per_second";
        for at in points(&axes) {
            let around: At = [self.around.at.clone(), at.clone()].concat();
            let mut runs = vec![];
            let mut trial = |ask: Ask| -> Result<Trial, ScenarioError> {
                if self.doing.is_stopped() {
                    return Err(ScenarioError::program(self.name, "the search was stopped"));
                }
                let rate = if in_bits {
                    format!("{:.0}", ask.rate)
                } else {
                    format!("{:.3}pps", ask.rate)
                };
                // A burst is sent as fast as can be.
                let rate = if ask.packets.is_some() { "0".into() } else { rate };
                let mut values = around.clone();
                values.push(("rate".into(), rate));
                values.push(("seconds".into(), ask.seconds.to_string()));
                if let Some(packets) = ask.packets {
                    values.push(("packets".into(), packets.to_string()));
                }
                let own: BTreeSet<String> = ["rate", "seconds", "packets"]
                    .map(String::from)
                    .into_iter()
                    .chain(self.around.at.iter().map(|(n, _)| n.clone()))
                    .collect();
                let mut plan = plans::plan(
                    &step.test,
                    &values,
                    &own,
                    &options.files,
                    options.words,
                    self.name,
                )?;
                for connection in &mut plan.connections {
                    if !step.test.holds("rate") {
                        connection.rate = values[around.len()].1.parse().ok();
                    }
                    match ask.packets {
                        Some(packets) => {
                            (connection.packets, connection.duration) = (Some(packets), None)
                        }
                        None if !step.test.holds("seconds") => {
                            connection.duration = Some(step.trial)
                        }
                        None => {}
                    }
                }
                let key = format!("{}|{}#{}", self.path, key(&at), ask.number);
                let one = OneRun {
                    test: &step.test,
                    plan: &plan,
                    at: &at,
                    repetition: ask.number,
                    key,
                    metrics: &metrics,
                };
                let (run, is_old) = self.run(&one)?;
                self.ran(&run, is_old, u64::from(ask.number), 0, None);
                if let Some(error) = &run.error {
                    return Err(ScenarioError::program(self.name, error));
                }
                let of = |name: &str| run.metrics.get(name).copied();
                let delays = statistics
                    .iter()
                    .filter_map(|s| Some(((*s).to_owned(), of(&format!("{s} one_way_delay"))?)))
                    .collect();
                let trial = Trial {
                    sent: of("sent_packets").unwrap_or(0.0) as u64,
                    lost: of("lost_packets").unwrap_or(0.0) as u64,
                    sent_rate: of(if in_bits { "sent_throughput" } else { "sent_packet_rate" }),
                    received_rate: of(if in_bits { "throughput" } else { "packet_rate" }),
                    delays,
                    disturbed: run.disturbed,
                };
                runs.push(run);
                Ok(trial)
            };
            let found = search(&terms, &mut trial);
            out.runs.append(&mut runs);
            for (i, mut figure) in found?.into_iter().enumerate() {
                figure.at.extend(at.iter().cloned());
                // The rate itself comes first.
                if i == 0 {
                    figure.published = self.published_beside(step, &around)?;
                }
                out.found.push(figure);
            }
        }
        out.axes = axes.into_iter().map(|(name, _)| name).collect();
        Ok(())
    }
}

impl Inner<'_, '_, '_> {
    /// What others published for a point.
    fn published_beside(
        &self,
        step: &SearchStep,
        at: &At,
    ) -> Result<Vec<PublishedFigure>, ScenarioError> {
        let mut points = [Point { at: at.iter().cloned().collect(), ..Point::default() }];
        for figures in &step.published {
            let table = published::read(figures, &self.doing.options.files)?;
            published::beside(figures, &table, &mut points);
        }
        let [point] = points;
        Ok(point.published)
    }
}

/// The terms of a search.
pub(in crate::scenario) fn terms(step: &SearchStep, place: &str) -> Result<Terms, ScenarioError> {
    let rate = |text: &Option<String>, name: &str| -> Result<Option<(f64, bool)>, ScenarioError> {
        let Some(text) = text else { return Ok(None) };
        let parsed: SendRate = text.parse()?;
        match parsed.limit {
            RateLimit::Bits(bits) => Ok(Some((bits.0 as f64, true))),
            RateLimit::Packets(packets) => Ok(Some((packets, false))),
            RateLimit::Unlimited => Err(ScenarioError::refused(
                &format!("{place}.{name}"),
                "a rate with an end, such as 100M or 50000pps",
            )),
        }
    };
    let high = rate(&step.high, "high")?.ok_or_else(|| {
        ScenarioError::refused(
            &format!("{place}.high"),
            "missing: the greatest rate, such as the line rate",
        )
    })?;
    let low = rate(&step.low, "low")?.unwrap_or((0.0, high.1));
    if low.1 != high.1 || low.0 >= high.0 {
        return Err(ScenarioError::refused(
            &format!("{place}.low"),
            "a rate below high, of the same unit",
        ));
    }
    let precision = step.precision_percentage.unwrap_or(1.0) / 100.0;
    if !(precision > 0.0 && precision < 1.0) {
        return Err(ScenarioError::refused(
            &format!("{place}.precision_percentage"),
            "above 0 and below 100",
        ));
    }
    Ok(Terms {
        kind: step.kind,
        low: low.0,
        high: high.0,
        unit: if high.1 { "bits_per_second" } else { "packets_per_second" },
        precision,
        seconds: step.trial.seconds(),
        loss: step.loss_percentage / 100.0,
        runs: step.runs.unwrap_or(1),
    })
}
