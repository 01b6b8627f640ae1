//! The page of several experiments: tables of one name merged, the steps of all of them, charts with a series for each.

use weir_model::counted;
use weir_model::experiment::{Experiment, Outcome};

use super::document::{Block, Document, Headline, Section, bind_colours};
use super::experiment::{meaning, of_experiment, outcome_text, result_tables};
use super::run::generator;
use crate::plot::{Figure, Reference, Series};
use crate::result_table::merged_tables;

/// The headings of experiments in a common report: the operating systems and kernels of their hosts, with the id where two
/// are the same. The id alone where all are the same or the hosts are unknown.
#[must_use]
pub fn headings(experiments: &[Experiment]) -> Vec<String> {
    let of = |experiment: &Experiment| {
        let mut systems: Vec<String> = vec![];
        for used in &experiment.hosts {
            let system = format!("{} {}", used.host.os, used.host.kernel).trim().to_owned();
            if !system.is_empty() && !systems.contains(&system) {
                systems.push(system);
            }
        }
        systems.join(" / ")
    };
    let named: Vec<String> = experiments.iter().map(of).collect();
    let heading = |(name, experiment): (&String, &Experiment)| {
        let same = named.iter().filter(|other| *other == name).count();
        match same {
            _ if name.is_empty() || same == named.len() => experiment.id.clone(),
            1 => name.clone(),
            _ => format!("{name} ({})", experiment.id),
        }
    };
    named.iter().zip(experiments).map(heading).collect()
}

/// A page about experiments, each with its heading. That of one is [`of_experiment`].
#[must_use]
pub fn of_experiments(experiments: &[(String, Experiment)]) -> Document {
    if let [(_, experiment)] = experiments {
        return of_experiment(experiment);
    }
    let pages: Vec<(&str, Document)> =
        experiments.iter().map(|(name, e)| (name.as_str(), of_experiment(e))).collect();
    let mut summary = vec![];
    let mut methods: Vec<String> = vec![];
    for (_, experiment) in experiments {
        let method = experiment.method.as_deref().unwrap_or_default();
        let method = method.split_whitespace().collect::<Vec<_>>().join(" ");
        if !method.is_empty() && !methods.contains(&method) {
            methods.push(method);
        }
    }
    summary.extend(methods.into_iter().map(Block::Text));
    let (mut steps, mut background): (Vec<Section>, Vec<Section>) = (vec![], vec![]);
    let mut number = 0;
    for (name, page) in &pages {
        for section in &page.sections {
            match section.id.as_str() {
                "summary" => {
                    let grids = section.blocks.iter().filter(|b| matches!(b, Block::Grid(_)));
                    summary.extend(grids.map(|block| named(block, name)));
                }
                // Merged, or the same for all.
                "tables" | "method" => {}
                id if section.background => background.push(Section {
                    id: format!("{id}-{}", background.len() + 1),
                    heading: format!("{}: {name}", section.heading),
                    ..section.clone()
                }),
                _ => {
                    let here = steps.iter_mut().find(|step| step.heading == section.heading);
                    let step = match here {
                        Some(step) => step,
                        None => {
                            number += 1;
                            let id = format!("step-{number}");
                            steps.push(Section::new(&id, &section.heading, vec![]));
                            // It was just added.
                            let Some(last) = steps.last_mut() else { continue };
                            last
                        }
                    };
                    add(step, &section.blocks, name);
                }
            }
        }
    }
    let mut sections = vec![Section::new("summary", "Expectations and results", summary)];
    let merged = merged_tables(experiments);
    if !merged.is_empty() {
        sections.push(Section::new("tables", "Tables", result_tables(&merged)));
    }
    sections.append(&mut steps);
    sections.append(&mut background);
    sections.extend(meaning(experiments.iter().map(|(_, e)| e)));
    bind_colours(&mut sections);
    let first = &experiments.first().map(|(_, e)| e);
    let title = first.map_or(String::new(), |e| e.title.clone().unwrap_or_else(|| e.name.clone()));
    let all = |outcome| experiments.iter().all(|(_, e)| e.outcome == outcome);
    let any = |outcome| experiments.iter().any(|(_, e)| e.outcome == outcome);
    let notices = pages.iter().flat_map(|(name, page)| {
        page.notices.iter().cloned().map(move |mut notice| {
            notice.about = match notice.about.as_str() {
                "" => (*name).to_owned(),
                about => format!("{name}, {about}"),
            };
            notice
        })
    });
    let headlines = experiments.iter().map(|(name, experiment)| {
        Headline::new(name, Some(outcome_text(experiment)), experiment.id.clone())
    });
    Document {
        title,
        subtitle: counted(experiments.len(), "experiment"),
        sentence: String::new(),
        passed: match (any(Outcome::Failed), all(Outcome::Passed)) {
            (true, _) => Some(false),
            (_, true) => Some(true),
            _ => None,
        },
        headlines: headlines.collect(),
        notices: notices.collect(),
        sections,
        generator: generator(),
    }
}

/// A block with the name of its experiment.
fn named(block: &Block, name: &str) -> Block {
    let mut block = block.clone();
    match &mut block {
        Block::Grid(grid) => grid.caption = format!("{name}: {}", grid.caption),
        Block::Verbatim { title, .. } => *title = format!("{name}: {title}"),
        Block::Text(text) => *text = format!("{name}: {text}"),
        _ => {}
    }
    block
}

/// Adds the blocks of an experiment's step: charts of one title and of the same axes are merged.
fn add(step: &mut Section, blocks: &[Block], name: &str) {
    for block in blocks {
        let Block::Figures(figures) = block else {
            step.blocks.push(named(block, name));
            continue;
        };
        if !step.blocks.iter().any(|b| matches!(b, Block::Figures(_))) {
            step.blocks.insert(0, Block::Figures(vec![]));
        }
        let charts = step.blocks.iter_mut().find_map(|b| match b {
            Block::Figures(charts) => Some(charts),
            _ => None,
        });
        let Some(charts) = charts else { continue };
        for figure in figures {
            let figure = of_experiment_named(figure, name);
            let is_same = |known: &&mut Figure| {
                (&known.title, &known.x, &known.y) == (&figure.title, &figure.x, &figure.y)
            };
            match charts.iter_mut().find(is_same) {
                Some(known) => {
                    known.series.extend(figure.series);
                    known.references.extend(figure.references);
                }
                None => {
                    let id = format!("{}-{}", step.id, charts.len() + 1);
                    charts.push(Figure { id, ..figure });
                }
            }
        }
    }
}

/// A chart whose series have the name of their experiment, and no colours yet.
fn of_experiment_named(figure: &Figure, name: &str) -> Figure {
    let series = figure.series.iter().map(|series| Series {
        name: format!("{}, {name}", series.name),
        colour: None,
        ..series.clone()
    });
    let references = figure
        .references
        .iter()
        .map(|line| Reference { name: format!("{}, {name}", line.name), ..line.clone() });
    Figure { series: series.collect(), references: references.collect(), ..figure.clone() }
}
