//! Fuzz body of the requests that clients of other hosts send. A fuzzer calls it, and so does the replay of seeded mutations in
//! this crate's tests.

use weir_wire::control::Message;

use crate::EmulatorRequest;

/// Requests: reading, writing and reading again has the same result, and an accepted job names no file.
pub fn fuzz_emulator_request(data: &[u8]) {
    let Ok(request) = EmulatorRequest::of_json(data) else { return };
    assert_eq!(EmulatorRequest::of_json(&request.to_json()).ok().as_ref(), Some(&request));
    if let EmulatorRequest::Start { job } = request
        && let Ok(job) = job.of_client()
    {
        assert!(job.control_socket.is_none() && job.packet_trace.is_none() && !job.detached);
        let _ = job.impairment.check();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_laws::mutation::replay;

    #[test]
    fn emulator_request() {
        let corpus = [
            r#"{"list":{}}"#,
            r#"{"start":{"job":{"interfaces":["eth1","eth2"],"force":true,"link":"packet","duration":"1s","ring_frames":64,"impairment":{"schema":"weir.impair/1","seed":"0x7","other":{"a_to_b":{"loss":{"percentage":1}},"b_to_a":{"delay":{"constant":"1ms"}}}}}}}"#,
            r#"{"start":{"job":{"interfaces":["a","b"],"packet_trace":"/etc/passwd"}}}"#,
            r#"{"poll":{"id":"1234"}}"#,
            r#"{"end":{"id":"1234"}}"#,
            r#"{"ask":{"id":"1","request":{"verb":"set","both":"loss 1%"}}}"#,
        ];
        replay(&corpus, 20_000, fuzz_emulator_request);
    }
}
