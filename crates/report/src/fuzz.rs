//! Fuzz bodies: renders any record in every form, and decodes any bytes as a histogram.

use crate::{CsvWriter, IntervalTable, Start, Style, TextOptions, csv_columns};

/// Renders any valid record: no rendering panics, text has no control character except the newline, and each CSV row has all
/// columns.
pub fn fuzz_render(data: &[u8]) {
    let Ok(record) = weir_model::document::parse_json::<weir_model::record::Record>(data) else {
        return;
    };
    for (verbose, width) in [(false, 100), (true, 1)] {
        let options = TextOptions { verbose, width, style: Style::PLAIN, ..Default::default() };
        let start = Start::from(&record);
        let table = IntervalTable::new(&start.flows, &options);
        let mut text = crate::header(&start, &options) + &table.heading();
        for interval in &record.intervals {
            text += &table.rows(interval);
        }
        text += &crate::summary(&record, &options);
        assert!(text.ends_with('\n'));
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    }
    if let Ok(mut csv) = CsvWriter::new(vec![])
        && csv.record(&record).is_ok()
    {
        let bytes = csv.into_inner();
        let text = String::from_utf8_lossy(&bytes);
        let mut quoted = false;
        let mut commas = 0;
        for c in text.chars() {
            match c {
                '"' => quoted = !quoted,
                ',' if !quoted => commas += 1,
                '\n' if !quoted => {
                    assert_eq!(commas + 1, csv_columns().len(), "{text}");
                    commas = 0;
                }
                _ => {}
            }
        }
        assert!(!quoted && commas == 0, "{text}");
    }
    pages(&record);
    let line = crate::json_line(&record);
    assert!(line.len() > 2 && line.matches('\n').count() == 1);
}

/// Renders pages and charts: no panic, only our own elements, and coordinates that are numbers.
fn pages(record: &weir_model::record::Record) {
    for document in
        [crate::page::of_run(record), crate::page::of_runs(&[record.clone(), record.clone()])]
    {
        let html = crate::page::html(&document);
        assert!(html.starts_with("<!DOCTYPE html>") && html.ends_with("</html>\n"));
        for element in ["script", "style", "html", "main"] {
            assert_eq!(html.matches(&format!("<{element}")).count(), 1, "{element}");
        }
        for path in html.split(" d=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(path.chars().all(|c| "MLZ 0123456789.-".contains(c)), "{path}");
        }
        assert!(crate::page::markdown(&document).ends_with("</sub>\n"));
        for figure in document.figures() {
            let svg = figure.svg();
            assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
            assert_eq!(svg.matches("<svg").count(), 1);
            assert!(figure.csv().ends_with('\n'));
        }
    }
}

/// Decodes any bytes: a histogram has ascending cells or is refused.
pub fn fuzz_histogram(data: &[u8]) {
    crate::hdr::fuzz(data);
}
