//! Transfers from the command line: what a user sees of them, and results of an interrupted test.

use serde_json::Value;

use crate::faults_common::*;

#[test]
fn transfers_of_each_direction_are_in_the_record() {
    let server = Serve::start(&[]);
    let host = format!("127.0.0.1:{}", server.port);
    for more in [&["-b", "200pps"][..], &["--users", "4", "--think-time", "1ms", "-R"]] {
        let law = "exponential(max=1M, mean=20K)";
        let words = ["test", "--no-store", &host, "--transfers", law, "-k", "30", "--json"];
        let output = weir().args(words).args(more).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        let record: Value = serde_json::from_str(&out(&output)).unwrap();
        let flow = &record["flows"][0];
        let t = &flow["transactions"];
        assert_eq!(
            (&t["shape"], &t["completed"], &t["failed"]),
            (&"transfers".into(), &30.into(), &0.into())
        );
        assert_eq!(t["transfers"]["completed_bytes"], flow["receiver"]["bytes"], "{t}");
        assert_eq!(t["response_time_from_scheduled"].is_object(), more[0] == "-b");
        assert_eq!(record["plan"]["connection"][0]["volume"], law);
    }
}
