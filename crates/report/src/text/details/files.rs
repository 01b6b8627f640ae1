//! The line of files in which the server stored what it received.

use weir_model::counted;
use weir_model::record::{Flow, ReceivedFile};

use super::Items;
use crate::number::volume;
use crate::style::clean;

pub(super) fn files(items: &mut Items, flows: &[Flow]) {
    items.per_flow(
        "Stored",
        flows,
        |f| f.received_file.as_ref().map(text),
        |flows| {
            let all = || flows.iter().filter_map(|f| f.received_file.as_ref());
            let count = all().count();
            let whole = all().filter(|file| file.is_whole == Some(true)).count();
            let bytes = all().map(|file| file.bytes).fold(0, u64::saturating_add);
            let text = format!("{}, {}; {whole} whole", counted(count, "file"), volume(bytes));
            (count > 0).then_some(text)
        },
    );
}

/// `weir-0000002a-1 at the server, 1.00 MiB, whole, removed with the session; SHA-256 …; fetched`.
fn text(file: &ReceivedFile) -> String {
    let state = match file.is_whole {
        Some(true) => ", whole",
        Some(false) => ", incomplete",
        None => "",
    };
    let kept = if file.is_kept { "kept" } else { "removed with the session" };
    let mut text =
        format!("{} at the server, {}{state}, {kept}", clean(&file.name), volume(file.bytes));
    if let Some(error) = &file.error {
        text += &format!(" ({})", clean(error));
    }
    text += &format!("; SHA-256 {}", clean(&file.sha256));
    if file.fetched_bytes.is_some() {
        // What was fetched is what the server has, which may not be what was sent.
        text += match file.is_whole {
            Some(true) => "; fetched, the same",
            Some(false) => "; fetched, incomplete",
            None => "; fetched",
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fetched_file_is_called_the_same_only_if_it_is_whole() {
        for (is_whole, is_same) in [(Some(true), true), (Some(false), false), (None, false)] {
            let fetched_bytes = Some(10);
            let file = ReceivedFile { is_whole, fetched_bytes, ..ReceivedFile::default() };
            assert_eq!(text(&file).contains("the same"), is_same, "{is_whole:?}");
        }
    }
}
