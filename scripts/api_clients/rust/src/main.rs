//! A UDP test by the generated Rust client: `weir-api-client URL HOST`.

use std::error::Error;
use std::time::{Duration, Instant};

#[allow(warnings)]
mod weir {
    progenitor::generate_api!("../../../docs/openapi-3.0.json");
}

use weir::types::{State, TestRequest};

const TIMEOUT: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, host] = &arguments[..] else { return Err("usage: weir-api-client URL HOST".into()) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(url, host))
}

async fn run(url: &str, host: &str) -> Result<(), Box<dyn Error>> {
    let client = weir::Client::new(url);
    let connection = serde_json::json!({ "transport": "udp", "rate": "1M", "duration": "1s" });
    let plan = serde_json::json!({ "schema": "weir.plan/1", "connection": [connection] });
    let request: TestRequest =
        serde_json::from_value(serde_json::json!({ "host": host, "plan": plan }))?;
    let mut test = client.start_test(&request).await?.into_inner();
    let start = Instant::now();
    while !matches!(test.state, State::Ended | State::Interrupted | State::Failed) {
        if start.elapsed() > TIMEOUT {
            return Err(
                format!("test {} is still {} after {TIMEOUT:?}", test.id, test.state).into()
            );
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        test = client.get_test(&test.id).await?.into_inner();
    }
    if test.state != State::Ended {
        return Err(format!("test {}: {}: {:?}", test.id, test.state, test.error).into());
    }
    let record = client.get_test_record(&test.id, None).await?.into_inner();
    let received = record.flows[0].receiver.as_ref().map_or(0, |end| end.packets);
    if received == 0 {
        return Err(format!("run {}: no packet arrived", record.id).into());
    }
    println!("Rust client: run {}, {received} packets received", record.id);
    Ok(())
}
