//! Refusals by the command-line parser, as data and as text for a terminal.

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use weir_model::{ModelError, Refusal, nearest, one_of};

use crate::app::command_line;
use crate::other_tools;

/// Exit code of bad input.
const USAGE: i32 = 2;

/// Parses a command line by `parse`. If that refuses a spelling whose meaning is clear, it gets the one that it accepts.
///
/// # Errors
/// The parser's refusal.
pub(crate) fn read<T>(
    words: &[OsString],
    parse: impl Fn(&[OsString]) -> Result<T, clap::Error>,
) -> Result<T, clap::Error> {
    let mut words = words.to_vec();
    let mut earlier = None;
    loop {
        let error = match parse(&words) {
            Ok(parsed) => return Ok(parsed),
            Err(error) => error,
        };
        let is_switch = error.kind() == ErrorKind::TooManyValues
            || strings(&error, ContextKind::InvalidArg) == ["-="];
        if is_switch && let Some(earlier) = earlier {
            // The flag before the number has no value.
            return Err(earlier);
        }
        // Each is shorter, or has the subcommand in place of the flag.
        match with_negative_value(&words, &error).or_else(|| with_verb_first(&words)) {
            Some(other) => words = other,
            None => return Err(with_typed_flag(error, &words)),
        }
        earlier = Some(error);
    }
}

/// The error with the flag's name that was typed, where it is an alias.
fn with_typed_flag(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    let argument = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) => argument.clone(),
        _ => return error,
    };
    let flag = plain(&argument);
    if let Some(typed) = typed_flag(&flag, words) {
        let named = argument.replacen(&flag, &typed, 1);
        error.insert(ContextKind::InvalidArg, ContextValue::String(named));
    }
    error
}

/// The alias of a flag such as `--length` or `-l/--length` that the command line has; `None` if it has the name itself.
pub(crate) fn typed_flag(flag: &str, words: &[OsString]) -> Option<String> {
    let long = flag.rsplit('/').next()?.strip_prefix("--")?;
    let command = command_of(words, &[])?;
    let flag = command.get_arguments().find(|flag| flag.get_long() == Some(long))?;
    let aliases = flag.get_all_aliases()?;
    let typed = words.iter().filter_map(|word| word.to_str()).take_while(|word| *word != "--");
    let mut names = typed.filter_map(|word| word.strip_prefix("--")?.split('=').next());
    let name = names.find(|name| aliases.contains(name))?;
    Some(format!("--{name}"))
}

/// `-b -5M` as `-b=-5M`: the parser takes `-5M` for flags.
fn with_negative_value(words: &[OsString], error: &clap::Error) -> Option<Vec<OsString>> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let unknown = strings(error, ContextKind::InvalidArg).pop()?;
    let is_number =
        unknown.strip_prefix('-')?.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let text = |at: usize| words[at].to_str().unwrap_or_default();
    let end = (0..words.len()).find(|at| text(*at) == "--").unwrap_or(words.len());
    let is_value = |at: &usize| text(*at).starts_with(&unknown) && text(at - 1).starts_with('-');
    let at = (2..end).find(is_value).filter(|_| is_number)?;
    let mut joined = words.to_vec();
    let value = joined.remove(at);
    joined[at - 1].push("=");
    joined[at - 1].push(value);
    Some(joined)
}

/// `weir impair --socket PATH show` as `weir impair show --socket PATH`, which `weir ctl` accepts too; also with the other
/// flags that select an emulator.
fn with_verb_first(words: &[OsString]) -> Option<Vec<OsString>> {
    const FLAGS: [&str; 7] = [
        "--socket",
        "--control-socket",
        "--id",
        "--on",
        "--key",
        "--key-file",
        "--passphrase-file",
    ];
    let [program, command, rest @ ..] = words else { return None };
    let mut count = 0;
    while let Some(flag) = rest.get(count) {
        let (name, is_whole) = flag
            .to_str()?
            .split_once('=')
            .map_or((flag.to_str()?, false), |(name, _)| (name, true));
        if !FLAGS.contains(&name) {
            break;
        }
        count += if is_whole { 1 } else { 2 };
    }
    let (flags, [verb, others @ ..]) = rest.split_at_checked(count)? else { return None };
    let line = command_line();
    let impair = line.find_subcommand("impair").filter(|_| command == "impair" && count > 0)?;
    impair.find_subcommand(verb)?;
    let front = [program, command, verb].into_iter();
    Some(front.chain(flags).chain(others).cloned().collect())
}

/// A refusal by the parser as data. `arguments` is the command line with the program's name.
pub(crate) fn refusal(error: &clap::Error, arguments: &[OsString]) -> Refusal {
    let code = match error.kind() {
        ErrorKind::UnknownArgument => "unknown-argument",
        ErrorKind::InvalidSubcommand => "unknown-command",
        ErrorKind::MissingRequiredArgument => "missing-argument",
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            "missing-command"
        }
        ErrorKind::InvalidValue
        | ErrorKind::ValueValidation
        | ErrorKind::NoEquals
        | ErrorKind::TooFewValues
        | ErrorKind::TooManyValues
        | ErrorKind::WrongNumberOfValues
        | ErrorKind::InvalidUtf8 => "value",
        _ => "usage",
    };
    let tip = tip(error, arguments);
    let argument = strings(error, ContextKind::InvalidArg);
    let command = strings(error, ContextKind::InvalidSubcommand);
    let field = argument.first().or(command.first()).map(|name| plain(name));
    let (given, accepted) = match error.kind() {
        ErrorKind::UnknownArgument => {
            let is_flag = field.as_ref().is_some_and(|name| name.starts_with('-'));
            let other = if is_flag { "the flags that --help lists" } else { "no further argument" };
            let accepted = tip.clone().or_else(|| suggested(error));
            (field.clone(), accepted.or_else(|| Some(other.into())))
        }
        ErrorKind::InvalidSubcommand => {
            let known = command_of(arguments, &command).map(|known| names_of(&known));
            (field.clone(), tip.clone().or_else(|| suggested(error)).or(known))
        }
        ErrorKind::MissingRequiredArgument => {
            let missing: Vec<String> = argument.iter().map(|name| plain(name)).collect();
            let missing = one_of(missing.iter().map(String::as_str)).replace(" or ", " and ");
            (Some("nothing".into()), tip.clone().or(Some(missing)))
        }
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            (Some("nothing".into()), command_of(arguments, &[]).map(|known| names_of(&known)))
        }
        ErrorKind::ArgumentConflict => {
            let other: Vec<String> =
                strings(error, ContextKind::PriorArg).iter().map(|name| plain(name)).collect();
            (
                Some(format!("given with {}", other.join(", "))),
                Some(tip.clone().unwrap_or_else(|| "one of them".into())),
            )
        }
        _ => {
            let given = strings(error, ContextKind::InvalidValue).first().cloned();
            let given = given.filter(|given| !given.is_empty());
            (given.or(Some("nothing".into())), tip.clone().or_else(|| accepted_value(error)))
        }
    };
    Refusal {
        code: code.into(),
        field,
        given,
        accepted,
        nearest: suggested(error)
            .filter(|_| code != "unknown-command" || tip.is_none())
            .or_else(|| nearest_value(error)),
        line: None,
        message: match code {
            "missing-command" => "a command is required".into(),
            _ => message(error, tip.as_deref()),
        },
        exit_code: USAGE,
    }
}

/// The refusal as text, with our hint in place of the parser's; `None` if we have no hint.
pub(crate) fn text(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    tip(error, arguments).map(|tip| with_tip(&error.render().to_string(), &tip))
}

/// The error on one line; the rest of the parser's text is usage.
fn message(error: &clap::Error, tip: Option<&str>) -> String {
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or(&text).trim();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let words: Vec<&str> = first.split_whitespace().collect();
    match tip {
        Some(tip) => format!("{}; {tip}", words.join(" ")),
        None => words.join(" "),
    }
}

/// The strings of a context; none where the error has no such context.
fn strings(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(one)) => vec![one.clone()],
        Some(ContextValue::Strings(all)) => all.clone(),
        _ => vec![],
    }
}

/// An argument without its value's name and brackets: `--time` of `--time <TIME>`, `HOST` of `<HOST>`.
fn plain(name: &str) -> String {
    let name = name.split([' ', '=']).next().unwrap_or(name).trim_end_matches("...");
    name.trim_matches(['<', '>', '[', ']']).to_owned()
}

/// The name that the parser suggests for a misspelt one.
fn suggested(error: &clap::Error) -> Option<String> {
    let of = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand];
    let names: Vec<String> = of.iter().flat_map(|kind| strings(error, *kind)).collect();
    (!names.is_empty()).then(|| one_of(names.iter().map(|name| name.as_str())))
}

/// The accepted value that is nearest to the one given.
fn nearest_value(error: &clap::Error) -> Option<String> {
    let names = strings(error, ContextKind::ValidValue);
    let given = strings(error, ContextKind::InvalidValue);
    nearest(given.first()?, names.iter().map(String::as_str)).map(Into::into)
}

/// The accepted values of an argument, as text.
fn accepted_value(error: &clap::Error) -> Option<String> {
    let names = strings(error, ContextKind::ValidValue);
    if !names.is_empty() {
        let near = nearest_value(error);
        let hint = near.map_or_else(String::new, |near| format!(" (did you mean {near}?)"));
        return Some(one_of(names.iter().map(String::as_str)) + &hint);
    }
    let Some(reason) = error.source() else { return Some("a value".into()) };
    match reason.downcast_ref() {
        Some(ModelError::Value { accepted, .. }) => return Some((*accepted).to_owned()),
        Some(ModelError::Field { accepted, .. }) => return Some(accepted.clone()),
        _ => {}
    }
    let reason = reason.to_string();
    Some(reason.strip_prefix("expected ").unwrap_or(&reason).to_owned())
}

/// The command that the arguments select, down to the last known subcommand. `unknown` is the first unknown one.
fn command_of(arguments: &[OsString], unknown: &[String]) -> Option<clap::Command> {
    let mut command = command_line();
    for argument in arguments.iter().skip(1).map_while(|argument| argument.to_str()) {
        if unknown.iter().any(|name| name == argument) {
            break;
        }
        if let Some(verb) = command.find_subcommand(argument) {
            command = verb.clone();
        }
    }
    Some(command)
}

/// The names of the subcommands that are not hidden.
pub(crate) fn names_of(command: &clap::Command) -> String {
    let shown = command.get_subcommands().filter(|c| !c.is_hide_set()).map(clap::Command::get_name);
    one_of(shown.filter(|name| *name != "help"))
}

/// The value given with a flag: the rest of its word, else the next word; empty if there is none.
fn value_of(words: &[OsString], flag: &str) -> String {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let Some(at) = words.iter().position(|word| word.starts_with(flag)) else {
        return String::new();
    };
    match words[at][flag.len()..].trim_start_matches('=') {
        "" => words.get(at + 1).map(ToString::to_string).unwrap_or_default(),
        rest => rest.into(),
    }
}

/// A hint for arguments of other tools and for misspelt ones, instead of the parser's own.
fn tip(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let command = words.get(1)?.to_str()?;
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else {
                return None;
            };
            let value = value_of(words, flag);
            other_tools::of_flag(command, flag, &value).map(Into::into).or_else(|| {
                // A similar flag is a better hint.
                let has_better = error.get(ContextKind::SuggestedArg).is_some();
                let line = command_line();
                let known = line.find_subcommand(command);
                let verb = words.get(2).and_then(|verb| known?.find_subcommand(verb.to_str()?));
                let names =
                    [known, verb].into_iter().flatten().map(|c| format!("{} ", c.get_name()));
                let of: String = names.collect();
                (!has_better && flag.starts_with('-'))
                    .then(|| format!("weir {of}--help lists the flags"))
            })
        }
        ErrorKind::ValueValidation => {
            let flag = strings(error, ContextKind::InvalidArg);
            let value = strings(error, ContextKind::InvalidValue);
            other_tools::of_flag(command, &plain(flag.first()?), value.first()?).map(Into::into)
        }
        ErrorKind::InvalidSubcommand => {
            let verb = strings(error, ContextKind::InvalidSubcommand).pop()?;
            let of = if verb == command { "" } else { command };
            let known =
                other_tools::of_command(command).or_else(|| other_tools::of_verb(of, &verb));
            known.map(Into::into).or_else(|| {
                // The parser may suggest a hidden command.
                let line = command_line();
                let is_hidden = |name: &String| {
                    line.find_subcommand(name).is_some_and(clap::Command::is_hide_set)
                };
                let names = strings(error, ContextKind::SuggestedSubcommand);
                names.iter().any(is_hidden).then(|| "weir --help lists the commands".into())
            })
        }
        ErrorKind::MissingRequiredArgument if command == "impair" => {
            let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else {
                return None;
            };
            if !missing.iter().any(|name| name == "<A>" || name == "<B>") {
                return None;
            }
            let word = words.get(2)?.to_str().filter(|word| !word.starts_with('-'))?;
            let line = command_line();
            let verbs: Vec<&str> = line
                .find_subcommand("impair")?
                .get_subcommands()
                .filter(|verb| !verb.is_hide_set())
                .map(clap::Command::get_name)
                .filter(|name| *name != "help")
                .collect();
            // With a subcommand, another argument is missing.
            if verbs.contains(&word) {
                return None;
            }
            let near = verbs.iter().min_by_key(|verb| strsim::levenshtein(verb, word));
            Some(match near.filter(|verb| strsim::levenshtein(verb, word) <= 2) {
                Some(verb) => format!("weir impair {verb}"),
                None => format!(
                    "two interfaces are needed, weir impair A B, or one of the commands {}",
                    verbs.join(", ")
                ),
            })
        }
        _ => None,
    }
}

/// The parser's text with our hint instead of its own.
fn with_tip(text: &str, tip: &str) -> String {
    let mut lines: Vec<String> =
        text.trim_end().lines().filter(|l| !l.starts_with("  tip: ")).map(Into::into).collect();
    let at = lines.iter().position(String::is_empty).map_or(lines.len(), |i| i + 1);
    lines.insert(at, format!("  tip: {tip}"));
    // If the parser had a hint of its own, the next line is empty already.
    if lines.get(at + 1).is_some_and(|l| !l.is_empty()) {
        lines.insert(at + 1, String::new());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> Refusal {
        let arguments: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
        let error =
            read(&arguments, |words| command_line().try_get_matches_from(words)).unwrap_err();
        refusal(&error, &arguments)
    }

    /// Code, field, given and accepted.
    fn parts(line: &str) -> [String; 4] {
        let refused = refused(line);
        let part = |part: Option<String>| part.unwrap_or_default();
        [refused.code, part(refused.field), part(refused.given), part(refused.accepted)]
    }

    #[test]
    fn refusals_of_the_parser_are_data() {
        for (line, wanted) in [
            ("weir test h --udpp", ["unknown-argument", "--udpp", "--udpp", "--udp"]),
            (
                "weir test h -q",
                ["unknown-argument", "-q", "-q", "weir test --help lists the flags"],
            ),
            ("weir tset h", ["unknown-command", "tset", "tset", "test"]),
            ("weir test", ["missing-argument", "HOST", "nothing", "HOST"]),
            ("weir test h -t", ["value", "--time", "nothing", "a value"]),
            (
                "weir test h -S 256",
                [
                    "value",
                    "--tos",
                    "256",
                    "the whole byte, 0 to 255: decimal, 0x hexadecimal or 0 octal",
                ],
            ),
            ("weir test h --gso maybe", ["value", "--gso", "maybe", "auto, on or off"]),
            ("weir test h -R --bidir", ["usage", "--reverse", "given with --bidir", "one of them"]),
            ("weir test h --total-rate", ["missing-argument", "--bitrate", "nothing", "--bitrate"]),
        ] {
            assert_eq!(parts(line), wanted, "{line}");
        }
        let [code, field, given, accepted] = parts("weir test h -b 10Q");
        assert_eq!([&*code, &*field, &*given], ["value", "--bitrate", "10Q"]);
        assert!(accepted.contains("500pps") || accepted.contains("50000pps"), "{accepted}");
        let [code, field, given, accepted] = parts("weir test h --transport upd");
        assert_eq!([&*code, &*field, &*given], ["value", "--transport", "upd"]);
        assert!(accepted.ends_with(" (did you mean udp?)"), "{accepted}");
        let [code, field, _, accepted] = parts("weir");
        assert_eq!([&*code, &*field], ["missing-command", ""]);
        assert!(accepted.starts_with("test, serve, "), "{accepted}");
    }

    #[test]
    fn a_flag_is_named_as_it_was_typed() {
        for (line, flag) in [
            ("weir test h -u --size normal(7,2)", "--size"),
            ("weir test h -u --size=x", "--size"),
            ("weir test h -u --length x", "--length"),
            ("weir test h -u -l x", "--length"),
            ("weir test h -u --idt x", "--idt"),
            ("weir test h -u --interval-law poisson", "--interval-law"),
            ("weir test h --bandwidth 10Q", "--bandwidth"),
            ("weir test h -u --size 64 --idt x", "--idt"),
            ("weir sweep h --over rate=1M -u --size x", "--size"),
        ] {
            assert_eq!(refused(line).field.as_deref(), Some(flag), "{line}");
        }
        let typed = |flag: &str, line: &str| {
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            typed_flag(flag, &words)
        };
        assert_eq!(typed("-l/--length", "weir test h --size 9").as_deref(), Some("--size"));
        assert_eq!(typed("--spacing", "weir test h --size 9"), None);
        assert_eq!(typed("--length", "weir test h -- --size"), None);
        assert_eq!(typed("HOST", "weir test h --size 9"), None);
    }

    #[test]
    fn a_verb_of_another_name_gets_that_of_weir() {
        for (line, accepted) in [
            ("weir runs compare a b", "weir runs diff A B"),
            ("weir runs delete a", "weir runs rm RUN"),
            ("weir runs ls", "weir runs list"),
            ("weir history", "weir runs list"),
            ("weir lab start", "weir lab up"),
        ] {
            let refused = refused(line);
            assert_eq!(refused.code, "unknown-command", "{line}");
            assert_eq!(refused.accepted.as_deref(), Some(accepted), "{line}");
        }
    }

    #[test]
    fn every_refusal_of_the_parser_has_an_exit_code_and_one_line() {
        for line in ["weir", "weir test", "weir test h --udpp", "weir impair", "weir lab exec a"] {
            let refused = refused(line);
            assert_eq!(refused.exit_code, 2, "{line}");
            assert!(!refused.message.contains('\n') && !refused.message.is_empty(), "{line}");
        }
    }

    #[test]
    fn arguments_of_other_tools_get_what_is_accepted_instead() {
        for (line, accepted) in [
            ("weir test -c 10.0.0.1", "weir test HOST"),
            ("weir -c 10.0.0.1", "weir test HOST"),
            ("weir test --client h", "weir test HOST"),
            ("weir test -s", "weir serve"),
            ("weir -s", "weir serve"),
            ("weir runs list -q", "weir runs list --help lists the flags"),
            ("weir serve -q", "weir serve --help lists the flags"),
            ("weir sweep h extra", "no further argument"),
            ("weir test h -1", "a flag of weir serve"),
            ("weir test h -c 160", "-l SIZE (-c of ITGSend)"),
            ("weir test h -E 1000", "-b RATEpps --spacing exponential"),
            ("weir test -r h", "--bidir"),
            ("weir test h -rp 9000", "-p PORT (-rp of ITGSend)"),
            ("weir serve --server", "no flag: weir serve is the server"),
            ("weir runs export --all --csv", "weir runs export RUN --format csv"),
        ] {
            let refused = refused(line);
            assert_eq!(refused.code, "unknown-argument", "{line}");
            assert_eq!(refused.accepted.as_deref(), Some(accepted), "{line}");
        }
        for (line, accepted) in
            [("weir impair shw", "weir impair show"), ("weir impair eth0", "weir impair A B")]
        {
            let refused = refused(line);
            assert_eq!(refused.code, "missing-argument", "{line}");
            assert!(refused.accepted.as_ref().unwrap().contains(accepted), "{line}: {refused:?}");
        }
    }

    #[test]
    fn commands_of_other_tools_get_their_equivalent() {
        for (line, accepted) in [
            ("weir iperf2 -c h -u", "weir iperf"),
            ("weir server", "weir serve"),
            ("weir client h", "weir test HOST"),
            ("weir ITGSend -a h", "weir test HOST"),
            ("weir itgrecv", "weir serve"),
            ("weir tc qdisc add dev eth0 root netem delay 1ms", "weir impair A B"),
            ("weir netdisturb", "weir serve --ui"),
        ] {
            let refused = refused(line);
            let name = line.split(' ').nth(1);
            assert_eq!(refused.code, "unknown-command", "{line}");
            assert_eq!((refused.field.as_deref(), refused.given.as_deref()), (name, name));
            assert!(refused.accepted.unwrap().contains(accepted), "{line}");
            assert_eq!(refused.nearest, None, "{line}");
        }
        assert!(refused("weir runs tc").accepted.unwrap().starts_with("list, "));
    }

    #[test]
    fn a_value_of_another_tool_gets_its_equivalent() {
        for (line, flag, given, accepted) in [
            ("weir test h -t TCP_RR", "--time", "TCP_RR", "--rr"),
            ("weir test h -t TCP_CRR", "--time", "TCP_CRR", "--shape crr"),
            ("weir test h -t UDP_STREAM", "--time", "UDP_STREAM", "-u"),
            ("weir test h -t DLCL_RR", "--time", "DLCL_RR", "--ethernet --rr"),
            ("weir test h -t DLCO_STREAM", "--time", "DLCO_STREAM", "--ethernet"),
            ("weir test h -t soon", "--time", "soon", "7d"),
            ("weir test h -C 1000", "--congestion", "1000", "-b RATEpps"),
        ] {
            let refused = refused(line);
            assert_eq!(refused.code, "value", "{line}");
            assert_eq!(refused.field.as_deref(), Some(flag), "{line}");
            assert_eq!(refused.given.as_deref(), Some(given), "{line}");
            assert!(refused.accepted.unwrap().contains(accepted), "{line}");
        }
    }

    #[test]
    fn a_negative_value_is_refused_with_its_flag() {
        for (line, flag, given) in [
            ("weir test h -b -5M", "--bitrate", "-5M"),
            ("weir test h -ub -5M", "--bitrate", "-5M"),
            ("weir test h -u -t -1 -b -5", "--time", "-1"),
            ("weir test h --title -5 -i -.5", "--interval", "-.5"),
            ("weir impair a b --duration -5ms", "--duration", "-5ms"),
            ("weir sweep h --over size=1 --runs -2", "--runs", "-2"),
        ] {
            let refused = refused(line);
            assert_eq!(refused.code, "value", "{line}");
            assert_eq!(refused.field.as_deref(), Some(flag), "{line}");
            assert_eq!(refused.given.as_deref(), Some(given), "{line}");
            assert!(!refused.accepted.unwrap().is_empty(), "{line}");
        }
        // No value of a flag.
        for line in ["weir test h -u -5", "weir test h -5", "weir test -5 h"] {
            let refused = refused(line);
            assert_eq!(
                (&*refused.code, refused.field.as_deref()),
                ("unknown-argument", Some("-5"))
            );
        }
    }

    #[test]
    fn the_socket_may_precede_the_verb() {
        for line in [
            "weir impair --socket /s show --json",
            "weir impair --control-socket=/s show --json",
            "weir impair show --json --socket /s",
            "weir ctl --socket /s status",
            "weir ctl status --socket /s",
        ] {
            let arguments: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
            let matches = read(&arguments, |words| command_line().try_get_matches_from(words));
            let matches = matches.unwrap_or_else(|e| panic!("{line}: {e}"));
            let (_, verb) = matches.subcommand().unwrap().1.subcommand().unwrap();
            let socket = verb.get_one::<std::path::PathBuf>("socket");
            assert_eq!(socket.map(|path| path.as_path()), Some("/s".as_ref()), "{line}");
        }
        // So may the other flags that select an emulator.
        let line = "weir impair --on=h --key-file k --id 1 show --json";
        let arguments: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
        let matches = read(&arguments, |words| command_line().try_get_matches_from(words));
        let matches = matches.unwrap_or_else(|e| panic!("{line}: {e}"));
        let (name, verb) = matches.subcommand().unwrap().1.subcommand().unwrap();
        assert_eq!((name, verb.get_one::<String>("id").unwrap().as_str()), ("show", "1"));
        assert_eq!(refused("weir impair --socket /s frob").code, "missing-argument");
    }

    /// Our hint replaces the parser's, and the usage is still printed.
    #[test]
    fn a_terminal_gets_one_hint() {
        for line in
            ["weir test -c h", "weir test h -1", "weir nuttcp", "weir impair shw", "weir -s"]
        {
            let arguments: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
            let error = command_line().try_get_matches_from(&arguments).unwrap_err();
            let text = text(&error, &arguments).unwrap();
            assert_eq!(text.matches("  tip: ").count(), 1, "{text}");
            assert!(text.contains("\n\nUsage: weir "), "{text}");
        }
        // The parser's own hint is better, or only an argument is missing.
        for line in
            ["weir test h --udpp", "weir impair a b --packet-trace-limit 10", "weir impair exec"]
        {
            let arguments: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
            let error = command_line().try_get_matches_from(&arguments).unwrap_err();
            assert_eq!(text(&error, &arguments), None, "{line}");
        }
    }
}
