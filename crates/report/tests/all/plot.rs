//! Compares charts with committed SVGs and CSVs. `WEIR_BLESS=1` rewrites them; look at them before committing.
// Clippy exempts test functions, but not their helpers.

use crate::support;
use support::golden;
use weir_report::page::{figures_of_run, figures_of_runs};
use weir_report::plot::{
    Axis, Figure, FigureData, Mark, Point, Quantity, ReferenceLine, Series, Shade, Spread,
};

fn check(figure: &Figure) {
    check_as(&figure.id, figure);
}

/// The drawing, and the data from which the page draws the same (`web/test/unit/plot.test.ts`).
fn check_as(name: &str, figure: &Figure) {
    golden(&format!("figures/{name}.svg"), &figure.svg());
    let data = serde_json::to_string(&FigureData::from(figure)).unwrap();
    golden(&format!("figures/{name}.json"), &format!("{data}\n"));
}

fn rate() -> Axis {
    Axis::new("Received", "received_bits_per_second", Quantity::BitsPerSecond)
}

#[test]
fn charts_of_a_run() {
    let figures = figures_of_run(&support::everything());
    let ids: Vec<&str> = figures.iter().map(|f| f.id.as_str()).collect();
    assert_eq!(
        ids,
        [
            "throughput",
            "packet-rate",
            "loss",
            "jitter",
            "delay",
            "tcp-rtt",
            "tcp-cwnd",
            "tcp-retransmits",
            "delay-histogram",
            "delay-cdf",
            "delay-tail",
            "loss-periods"
        ]
    );
    for figure in &figures {
        check(figure);
    }
    golden("figures/delay.csv", &figures[4].csv());
    golden("figures/loss-periods.csv", &figures[11].csv());
    assert!(figures[4].csv().contains("\n1 udp-forward,12,13,,"), "a gap is an empty cell");
}

#[test]
fn overlaid_charts_of_several_runs() {
    let (a, b) = (support::everything(), support::udp_loss());
    let figures = figures_of_runs(&[("run 1".into(), &a), ("run 2".into(), &b)]);
    for figure in
        figures.iter().filter(|f| ["rates", "throughput", "delay-cdf"].contains(&f.id.as_str()))
    {
        check_as(&format!("compared-{}", figure.id), figure);
    }
}

#[test]
fn a_sweep_with_error_bars() {
    let sizes = [64.0, 128.0, 256.0, 512.0, 1024.0, 1408.0];
    let tool = |name: &str, scale: f64| {
        Series::curve(name).points(sizes.iter().enumerate().map(|(i, size)| {
            let y = scale * size * 8.0 * 80_000.0 / (1.0 + size / 900.0);
            Point::at(*size, y).between(y * 0.95, y * 1.04).host_limited(i == 3 && scale < 1.0)
        }))
    };
    let size = || Axis::new("Payload", "payload_bytes", Quantity::Number);
    let figure = Figure::curve("sweep", "Throughput by payload", size(), rate())
        .caption("Mean of 25 runs; bars are 95 % confidence intervals")
        .with(tool("weir", 1.0))
        .with(tool("iperf3 <3.12>", 0.8))
        .with(tool("nuttcp", 0.5))
        .reference("nominal rate", ReferenceLine::Horizontal(500e6))
        .reference("saturation", ReferenceLine::Vertical(900.0));
    check(&figure);
    golden("figures/sweep.csv", &figure.csv());
    let log = Figure { id: "sweep-log".into(), ..figure };
    check(&Figure { x: log.x.clone().log(), y: log.y.clone().log(), ..log });
}

#[test]
fn tools_compared() {
    let bars = |name: &str, shift: f64| {
        Series::new(name, Mark::Bars).points((0..4).map(|i| {
            let y = 900e6 - shift * f64::from(i * i) * 1e7;
            Point::at(f64::from(i), y).between(y - 2e7, y + 2e7).host_limited(i == 2 && shift > 3.0)
        }))
    };
    let names = [
        "1 × TCP IPv4",
        "16 × TCP IPv4",
        "1 × UDP IPv6 of a long name that does not fit",
        "16 × UDP",
    ];
    check(
        &Figure::grouped_bars("tools", "Tools compared", names, rate())
            .with(bars("weir", 1.0))
            .with(bars("iperf3", 4.0)),
    );
}

#[test]
fn asked_against_measured() {
    let points = (1..=20)
        .map(|i| Point::at(f64::from(i) * 5e-3, f64::from(i) * 5e-3 + 1e-4 * f64::from(i % 7)));
    check(
        &Figure::asked_measured(
            "asked-measured",
            "Delay: asked and measured",
            Quantity::Seconds,
            "_seconds",
        )
        .with(Series::new("emulator", Mark::Points).points(points)),
    );
}

#[test]
fn many_series_are_distinguished() {
    let mut figure = Figure::over_time("sixteen", "Sixteen flows", rate());
    for n in 0..16 {
        let points = (0..60).map(|t| {
            Point::over(
                f64::from(t),
                f64::from(t + 1),
                1e6 * f64::from(n + 1) + 1e5 * f64::from((t * 7 + n * 3) % 5),
            )
        });
        figure = figure.with(Series::new(format!("flow {n}"), Mark::Step).points(points));
    }
    check(&figure);
    let dashes = |figure: &Figure| figure.svg().matches("stroke-dasharray=\"5 3\"").count();
    assert_eq!(dashes(&figure), 0, "sixteen colours");
    let more = figure.series[0].clone();
    assert_eq!(dashes(&figure.with(more)), 2, "a dashed line and its key");
}

#[test]
fn bands_areas_and_shades() {
    let wave = |t: i32, phase: f64| 50e-6 + 20e-6 * (f64::from(t) / 9.0 + phase).sin();
    let band = Series {
        spread: Spread::Band,
        ..Series::new("median", Mark::Line).points((0..100).map(|t| {
            Point::at(f64::from(t), wave(t, 0.0)).between(wave(t, 0.0) - 1e-5, wave(t, 0.0) + 3e-5)
        }))
    };
    let area =
        Series::new("idle", Mark::Area).points((0..50).filter(|t| !(20..25).contains(t)).map(
            |t| Point::over(f64::from(t * 2), f64::from(t * 2 + 2), 1e-5 + wave(t, 1.0) / 9.0),
        ));
    let mut figure = Figure::over_time(
        "bands",
        "Bands, areas, gaps",
        Axis::new("Delay", "delay_seconds", Quantity::Seconds),
    )
    .with(area)
    .with(band);
    figure.shades.push(Shade { x: 0.0, x_end: 10.0 });
    check(&figure);
}

#[test]
fn a_chart_without_data_says_so() {
    let figure = Figure::over_time("empty", "Nothing", rate())
        .with(Series::new("x", Mark::Step).points([Point::at(0.0, f64::NAN)]));
    assert!(figure.is_empty());
    let svg = figure.svg();
    assert!(svg.contains(">not measured<"), "{svg}");
    check(&figure);
}

/// Absurd numbers still give a valid drawing.
#[test]
fn absurd_numbers_are_drawn() {
    for y in [f64::MAX, f64::MIN, f64::MIN_POSITIVE, f64::INFINITY, -0.0, 1e-320] {
        for x in [Axis::time(), Axis::time().log()] {
            let mut figure = Figure::new("x", "x", x, rate())
                .with(Series::new("a", Mark::Area).points([
                    Point::over(y, y, y),
                    Point::over(1.0, -1.0, 2.0).between(y, f64::NAN),
                ]))
                .with(Series::curve("b").points([Point::at(y, y), Point::at(f64::NAN, 1.0)]))
                .reference("r", ReferenceLine::Vertical(y))
                .reference("d", ReferenceLine::Diagonal);
            figure.shades.push(Shade { x: y, x_end: 1.0 });
            let svg = figure.svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert!(svg.len() < 20_000, "{}", svg.len());
        }
    }
}

/// 16 flows over an hour of 1 s intervals: the drawing is reduced to the resolution of a screen, the CSV has all values.
#[test]
fn an_hour_is_thinned_out() {
    let record = support::large(16, 3600);
    let figures = figures_of_run(&record);
    let throughput = figures.iter().find(|f| f.id == "throughput").unwrap();
    let svg = throughput.svg();
    assert!(svg.len() < 450_000, "{}", svg.len());
    assert_eq!(throughput.csv().lines().count(), 1 + 17 * 3600);
}
