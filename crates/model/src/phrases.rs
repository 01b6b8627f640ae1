//! Formatting of phrases: numbers with nouns, lists of choices.

use std::fmt::Display;

/// A number and its noun: `1 packet`, `0 packets`, `12 packets`. Only for nouns with a plural in -s.
#[must_use]
pub fn counted<N: Display + From<u8> + PartialEq>(count: N, noun: &str) -> String {
    let plural = if count == N::from(1) { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Choices in a sentence: `tcp`, `tcp or udp`, `tcp, mptcp or udp`.
#[must_use]
pub fn one_of<'a>(choices: impl IntoIterator<Item = &'a str>) -> String {
    let choices: Vec<&str> = choices.into_iter().collect();
    match &choices[..] {
        [] => "none".into(),
        [one] => (*one).into(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn one_is_singular() {
        let phrases: Vec<String> = [0_u64, 1, 2].map(|n| super::counted(n, "packet")).into();
        assert_eq!(phrases, ["0 packets", "1 packet", "2 packets"]);
    }
}
