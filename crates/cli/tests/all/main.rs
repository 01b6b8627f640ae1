//! All integration tests of this crate in one program, which is linked once.
// A helper that fails is a failed test. Helpers are shared, and not every test uses each.
#![allow(dead_code, clippy::unwrap_used)]

mod common;
mod faults_common;
#[path = "../../../api/tests/all/http/mod.rs"]
mod http;
mod impair_pairs;
mod impair_path;

mod campaigns;
mod cast;
mod cli;
mod clocks;
mod control_socket;
mod data_ports;
mod demo;
mod doctor;
mod echo;
mod ecn;
mod ethernet;
mod experiments;
mod faults;
mod faults_lab;
mod fleet;
mod hooks;
mod impair;
mod impair_exec;
mod impair_faults;
mod impair_local;
mod impair_network;
mod impair_record;
mod impair_tap;
mod impaired;
mod iperf;
mod iperf3;
mod jobs;
mod kernel;
mod lab;
mod live_view;
mod netperf;
mod outside;
#[cfg(feature = "parquet")]
mod parquet;
mod peers;
mod published;
mod refusals;
mod replay;
mod report;
mod schema;
mod serve;
mod setups;
mod several;
mod speed;
mod sweep;
mod transfers;
mod tshark;
mod ttcp;
mod ui;
mod voice;
mod watch;
mod xdp;
