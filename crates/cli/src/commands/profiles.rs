//! `weir profiles`: links for the emulator and applications' traffic for tests.

use clap::{Args, Subcommand};
use weir_model::impairment::profiles::{PROFILES, Profile};
use weir_model::metric::Unit;
use weir_model::plan::{Connection, Plan, TrafficProfile};
use weir_report::{TextOptions, hanging};

use crate::error::CliError;
use crate::output::print;
use crate::terminal::text_options;
use crate::user_data;

/// List or show profiles: links for `weir impair --profile`, traffic for `weir test --profile`
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "A profile of traffic is a plan (weir.plan/1). A file NAME.toml in profiles/ of the configuration directory \
                  (WEIR_CONFIG_DIR, else $XDG_CONFIG_HOME/weir, else ~/.config/weir) is a profile of your own; it replaces the \
                  program's of the same name:\n  \
                  weir profiles show voip-g711 > ~/.config/weir/profiles/phone.toml"
)]
pub(crate) struct ProfilesArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List all profiles: the same as without a command
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a profile as a file: a plan (weir.plan/1) or an impairment (weir.impair/1)
    Show {
        /// Name of the profile
        #[arg(value_name = "NAME")]
        name: String,
    },
}

/// Prints the list, or one profile's file.
pub(crate) fn run(args: &ProfilesArgs) -> Result<i32, CliError> {
    let is_json = match &args.action {
        Some(Action::Show { name }) => return print(&file(name)?),
        Some(Action::List { json }) => *json,
        None => args.json,
    };
    let traffic = TrafficProfile::all();
    if is_json {
        let links = PROFILES.iter().map(|p| {
            serde_json::json!({
                "name": p.name, "title": p.title, "source": p.source,
                "a_to_b": p.up, "b_to_a": p.down,
            })
        });
        let traffic = traffic.iter().map(|p| {
            let plan = p.plan();
            serde_json::json!({
                "name": p.name, "source": p.source(), "own": p.is_users,
                "title": plan.as_ref().ok().and_then(|plan| plan.title.clone()),
                "plan": plan.as_ref().ok(),
                "error": plan.as_ref().err().map(ToString::to_string),
            })
        });
        let all = serde_json::json!({
            "profiles": links.collect::<Vec<_>>(), "traffic": traffic.collect::<Vec<_>>(),
        });
        return print(&format!("{all:#}\n"));
    }
    let options = text_options();
    let own = user_data::profile_directory().map(|path| path.display().to_string());
    print(&format!("{}\n{}", links(&options), self::traffic(&traffic, own.as_deref(), &options)))
}

/// The file of a profile.
fn file(name: &str) -> Result<String, CliError> {
    if let Some(profile) = TrafficProfile::named(name) {
        return match profile.unreadable {
            None => Ok(profile.text.into_owned()),
            Some(reason) => {
                Err(CliError::flag("NAME", reason, "a readable file, UTF-8, of up to 1 MiB"))
            }
        };
    }
    let link = PROFILES.iter().find(|profile| profile.name == name);
    let link = link.ok_or_else(|| {
        CliError::flag("NAME", name, "a name of the list that `weir profiles` prints")
    })?;
    let Profile { title, source, up, down, .. } = link;
    Ok(format!(
        "# {title}. Source: {source}.\n\nschema = \"weir.impair/1\"\n\n[other]\na_to_b = \"{up}\"\nb_to_a = \"{down}\"\n"
    ))
}

/// Links: three lines for each, then the sources.
fn links(options: &TextOptions) -> String {
    let mut out = options.style.bold("Links: weir impair --profile NAME") + "\n\n";
    let mut sources: Vec<&str> = Vec::new();
    for Profile { name, title, source, up, down } in &PROFILES {
        let number = sources.iter().position(|known| known == source).unwrap_or_else(|| {
            sources.push(source);
            sources.len() - 1
        });
        let heading = options.style.bold(name);
        out += &format!("{heading}: {title} [{}]\n", number + 1);
        let laws = if up == down { vec![("both", up)] } else { vec![("up", up), ("down", down)] };
        for (label, laws) in laws {
            out += &format!("  {label:<4}  {}", hanging(laws, options.width, 8));
        }
    }
    out += "\nup is A to B, down is B to A. Delays are one-way. Sources:\n";
    for (number, source) in (1..).zip(&sources) {
        let label = format!("[{number}] ");
        out += &format!("{label}{}", hanging(source, options.width, label.len()));
    }
    out
}

/// Traffic: a line for each, and one for each kind of its connections.
fn traffic(profiles: &[TrafficProfile], own: Option<&str>, options: &TextOptions) -> String {
    let mut out = options.style.bold("Traffic: weir test HOST --profile NAME") + "\n\n";
    for profile in profiles {
        let mark = if profile.is_users { " (your own)" } else { "" };
        let heading = |text: &str| {
            let line = hanging(&format!("{}: {text}{mark}", profile.name), options.width, 2);
            line.replacen(&*profile.name, &options.style.bold(&profile.name), 1)
        };
        match profile.plan() {
            Ok(plan) => {
                out += &heading(plan.title.as_deref().unwrap_or("without a title"));
                for (label, text) in described(&plan) {
                    out += &format!("  {label:<8}{}", hanging(&text, options.width, 10));
                }
            }
            Err(error) => out += &heading(&format!("not a plan: {error}")),
        }
    }
    let place = own.map(|own| format!(", or as NAME.toml in {own}")).unwrap_or_default();
    let help = format!(
        "weir profiles show NAME prints one with its source. Save it and edit it, as a plan (weir test --plan FILE){place}."
    );
    out + "\n" + &hanging(&help, options.width, 0)
}

/// Each direction of a plan with its mean sizes and rates; those of both directions once if they are equal.
fn described(plan: &Plan) -> Vec<(&'static str, String)> {
    use weir_model::plan::Direction::{Forward, Reverse};
    let of = |direction| -> Vec<String> {
        let connections = plan.connections.iter().filter(|c| c.direction == direction);
        connections.map(|c| one(plan, c)).collect()
    };
    let (forward, reverse) = (of(Forward), of(Reverse));
    if forward == reverse {
        return forward.into_iter().map(|text| ("both", text)).collect();
    }
    let forward = forward.into_iter().map(|text| ("forward", text));
    forward.chain(reverse.into_iter().map(|text| ("reverse", text))).collect()
}

fn one(plan: &Plan, connection: &Connection) -> String {
    let alone = Plan { connections: vec![connection.clone()], ..plan.clone() };
    let family = plan.family.unwrap_or(weir_model::plan::Family::Ipv4);
    let flows = alone.flows(family, 1500);
    let mut parts = vec![connection.transport.title().to_owned()];
    if let Some(flow) = flows.first() {
        parts.push(format!("{} B", flow.payload_bytes()));
        if let (Some(packets), Some(bits)) = (flow.packets_per_second(), flow.bits_per_second()) {
            let unit = if connection.transport.datagrams() { "packets/s" } else { "writes/s" };
            parts.push(format!("{} {unit}", Unit::Count.show(packets)));
            parts.push(Unit::BitsPerSecond.show(bits));
        }
    }
    if connection.count > 1 {
        parts.push(format!("{} times", connection.count));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_and_source_fits_the_terminal() {
        let all = TrafficProfile::all();
        for width in [60, 80, 200] {
            let options = TextOptions { width, ..TextOptions::default() };
            let text = links(&options) + &traffic(&all, None, &options);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            let words =
                |text: &str| text.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>();
            let printed = words(&text).join(" ");
            for profile in &PROFILES {
                for part in [profile.title, profile.source, profile.up, profile.down] {
                    assert!(printed.contains(&words(part).join(" ")), "{width}: {part}");
                }
            }
            for profile in &all {
                let title = profile.plan().unwrap().title.unwrap();
                assert!(printed.contains(&title), "{width}: {title}");
            }
        }
    }

    #[test]
    fn shown_links_are_their_presets() {
        use weir_model::impairment::Impairment;
        use weir_model::plan::Direction;
        for profile in &PROFILES {
            let shown = Impairment::parse(&file(profile.name).unwrap()).unwrap();
            let preset = Impairment::of_profile(profile.name).unwrap();
            for direction in [Direction::Forward, Direction::Reverse] {
                assert_eq!(shown.other.laws(direction), preset.other.laws(direction));
            }
        }
        assert!(file("6g").is_err());
    }
}
