//! The page of several experiments: tables of one name merged with the differences, charts with a series for each.

use weir_model::counted;
use weir_model::experiment::{Experiment, Outcome};

use super::difference;
use super::document::{Block, Document, Headline, Section, bind_colours};
use super::experiment::{meaning, of_experiment, outcome_text, result_tables};
use super::grid::{Column, Grid};
use super::merge::{DIFFERENCE, merged};
use super::run::generator;
use crate::plot::{Figure, Reference, Series};
use crate::result_table::merged_tables;

/// Id of the section of the scenarios' own tables.
pub(crate) const TABLES: &str = "tables";

/// The blocks of an experiment's section, with the experiment's name.
type Part<'a> = (&'a str, &'a [Block]);

/// The headings of experiments in a common report: the operating systems and kernels of their hosts where they differ,
/// else their titles or names with the time of their start.
#[must_use]
pub fn headings(experiments: &[Experiment]) -> Vec<String> {
    let system_of = |experiment: &Experiment| {
        let mut systems: Vec<String> = vec![];
        for used in &experiment.hosts {
            let system = format!("{} {}", used.host.os, used.host.kernel).trim().to_owned();
            if !system.is_empty() && !systems.contains(&system) {
                systems.push(system);
            }
        }
        systems.join(" / ")
    };
    let is_unique =
        |all: &[String], one: &String| all.iter().filter(|other| *other == one).count() == 1;
    let systems: Vec<String> = experiments.iter().map(system_of).collect();
    let titles: Vec<String> =
        experiments.iter().map(|e| e.title.clone().unwrap_or_else(|| e.name.clone())).collect();
    let has_own_titles = titles.iter().all(|title| is_unique(&titles, title));
    let named = |digits: usize| -> Vec<String> {
        let all = experiments.iter().zip(&titles).map(|(experiment, title)| {
            let name = if has_own_titles { title } else { &experiment.name };
            match experiment.started_at.get(..digits) {
                Some(start) => format!("{name}, {} UTC", start.replace('T', " ")),
                None => name.clone(),
            }
        });
        all.collect()
    };
    // To the minute, or to the second where that distinguishes them.
    let (minutes, seconds) = (named(16), named(19));
    let has_system = |i: usize| !systems[i].is_empty() && is_unique(&systems, &systems[i]);
    let is_same_minute = |i: usize, j: usize| i != j && !has_system(j) && minutes[i] == minutes[j];
    let mut out: Vec<String> = vec![];
    for i in 0..experiments.len() {
        let heading = match (has_system(i), (0..experiments.len()).any(|j| is_same_minute(i, j))) {
            (true, _) => systems[i].clone(),
            (false, false) => minutes[i].clone(),
            (false, true) => seconds[i].clone(),
        };
        let mut own = heading.clone();
        for n in 2.. {
            if !out.contains(&own) {
                break;
            }
            own = format!("{heading} ({n})");
        }
        out.push(own);
    }
    out
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
    // The sections of one heading, each with the name of its experiment.
    let (mut steps, mut background): (Vec<(&str, Vec<Part<'_>>)>, Vec<Section>) = (vec![], vec![]);
    let mut judged: Vec<Part<'_>> = vec![];
    for (name, page) in &pages {
        for section in &page.sections {
            match section.id.as_str() {
                "summary" => judged.push((name, &section.blocks)),
                // Merged, or the same for all.
                TABLES | "method" => {}
                id if section.background => background.push(Section {
                    id: format!("{id}-{}", background.len() + 1),
                    heading: format!("{}: {name}", section.heading),
                    ..section.clone()
                }),
                _ => {
                    let part = (*name, section.blocks.as_slice());
                    match steps.iter_mut().find(|(heading, _)| *heading == section.heading) {
                        Some((_, parts)) => parts.push(part),
                        None => steps.push((&section.heading, vec![part])),
                    }
                }
            }
        }
    }
    // The methods are above.
    let judged = side_by_side("summary", &judged);
    summary.extend(judged.into_iter().filter(|block| matches!(block, Block::Grid(_))));
    let mut steps: Vec<Section> = steps
        .iter()
        .enumerate()
        .map(|(i, (heading, parts))| {
            let id = format!("step-{}", i + 1);
            let blocks = side_by_side(&id, parts);
            Section::new(&id, heading, blocks)
        })
        .collect();
    let mut sections = vec![Section::new("summary", "Expectations and results", summary)];
    let tables = merged_tables(experiments);
    if !tables.is_empty() {
        sections.push(Section::new(TABLES, "Tables", result_tables(&tables)));
    }
    sections.append(&mut steps);
    if sections.iter().flat_map(|s| &s.blocks).any(has_differences) {
        sections[0].blocks.push(Block::Text(difference::NOTE.into()));
    }
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
        Block::Facts(facts) => {
            facts.iter_mut().for_each(|(fact, _)| *fact = format!("{name}: {fact}"));
        }
        _ => {}
    }
    block
}

/// Whether a block is a table with differences.
fn has_differences(block: &Block) -> bool {
    let is_of = |column: &Column| column.over.starts_with(DIFFERENCE);
    matches!(block, Block::Grid(grid) if grid.columns.iter().any(is_of))
}

/// The blocks of the sections of one heading: charts of one title and of the same axes are merged, and so are tables with the
/// same title and rows.
fn side_by_side(id: &str, parts: &[Part<'_>]) -> Vec<Block> {
    let mut charts: Vec<Figure> = vec![];
    let mut out: Vec<Block> = vec![];
    let mut done: Vec<&Grid> = vec![];
    for (place, (name, blocks)) in parts.iter().enumerate() {
        for block in *blocks {
            match block {
                Block::Figures(figures) => {
                    figures.iter().for_each(|figure| add(&mut charts, id, figure, name));
                }
                Block::Grid(grid) if done.iter().any(|known| known.is_mergeable(grid)) => {}
                Block::Grid(grid) => {
                    let here = parts[place..].iter().filter_map(|(name, blocks)| {
                        let other = blocks.iter().find_map(|block| match block {
                            Block::Grid(other) if grid.is_mergeable(other) => Some(other),
                            _ => None,
                        });
                        Some((*name, other?))
                    });
                    let same: Vec<(&str, &Grid)> = here.collect();
                    match same.len() {
                        0 | 1 => out.push(named(block, name)),
                        _ => {
                            done.push(grid);
                            out.push(Block::Grid(merged(&same)));
                        }
                    }
                }
                _ => out.push(named(block, name)),
            }
        }
    }
    if !charts.is_empty() {
        out.insert(0, Block::Figures(charts));
    }
    out
}

/// Adds a chart of an experiment: its series join a chart of the same title and axes.
fn add(charts: &mut Vec<Figure>, id: &str, figure: &Figure, name: &str) {
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
            let id = format!("{id}-{}", charts.len() + 1);
            charts.push(Figure { id, ..figure });
        }
    }
}

/// A chart whose series have the name of their experiment, and no colours yet. An only series has just that name: the
/// experiment then has one colour in the charts of all metrics.
fn of_experiment_named(figure: &Figure, name: &str) -> Figure {
    let is_only = figure.series.len() == 1;
    let series = figure.series.iter().map(|series| Series {
        name: if is_only { name.to_owned() } else { format!("{}, {name}", series.name) },
        colour: None,
        ..series.clone()
    });
    let references = figure
        .references
        .iter()
        .map(|line| Reference { name: format!("{}, {name}", line.name), ..line.clone() });
    Figure { series: series.collect(), references: references.collect(), ..figure.clone() }
}
