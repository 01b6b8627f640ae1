//! Seeded mutations of a small corpus through every fuzz body.
#![cfg(target_os = "linux")]

use weir_net::fuzz::*;

fn replay(samples: &[Vec<u8>], body: fn(&[u8])) {
    weir_laws::mutation::replay(samples, 5000, body);
}

fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = ((payload.len() + 4) as u16).to_ne_bytes().to_vec();
    out.extend(kind.to_ne_bytes());
    out.extend(payload);
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

fn message(kind: u16, fixed: usize, attributes: &[Vec<u8>]) -> Vec<u8> {
    let body: Vec<u8> = std::iter::repeat_n(1, fixed).chain(attributes.concat()).collect();
    let mut out = ((body.len() + 16) as u32).to_ne_bytes().to_vec();
    out.extend(kind.to_ne_bytes());
    out.extend([0; 10]);
    out.extend(body);
    out
}

#[test]
fn control_messages() {
    let mut one = 20_usize.to_ne_bytes().to_vec();
    one.extend(17_i32.to_ne_bytes());
    one.extend(104_i32.to_ne_bytes());
    one.extend([0xc0, 5, 0, 0, 0, 0, 0, 0]);
    replay(&[one.clone(), [one.clone(), one].concat()], fuzz_control_messages);
}

#[test]
fn netlink() {
    let link = message(
        16,
        16,
        &[attribute(3, b"eth0\0"), attribute(4, &[0, 5, 0, 0]), attribute(23, &[7; 200])],
    );
    let nested = attribute(1, &[3; 12]);
    let qdisc = message(36, 20, &[attribute(1, b"fq\0"), attribute(7, &nested)]);
    let route =
        message(24, 12, &[attribute(4, &[2, 0, 0, 0]), attribute(9, &[8, 0, 0, 0, 3, 0, 0, 0])]);
    let payloads = [link[16..].to_vec(), qdisc[16..].to_vec(), route[16..].to_vec()];
    replay(&[link.clone(), qdisc.clone(), [link, qdisc, route].concat()], fuzz_netlink);
    replay(&payloads, fuzz_netlink);
}

#[test]
fn proc_text() {
    let texts = [
        "Tcp: RtoAlgorithm MaxConn\nTcp: 1 -1\nUdp: InErrors\nUdp: 3\n",
        "Udp6InErrors 4\nIp6OutRequests 18446744073709551615\n",
        "cpu  1 2 3 4 5 6 7 8\ncpu0 1 2 3 4 5 6 7 18446744073709551615\n",
        "0000000a 00000001 00000002 0 0 0 0 0 0 3 4 0 7 0 0\n",
    ];
    replay(&texts.map(|t| t.as_bytes().to_vec()), fuzz_proc_text);
}

#[test]
fn restorations() {
    let good = b"weir.restoration/1\nboot 5a-1\nprocess 7 99\nnamespace 4 4026531840\nfeature 2 eth0 rx-gro\n";
    let none = b"weir.restoration/1\nboot 5a-1\nprocess 7 99\nnamespace 4 4026531840\n";
    replay(&[good.to_vec(), none.to_vec()], fuzz_restoration);
}

#[test]
fn answers_of_chronyc() {
    let good = b"C0000201,192.0.2.1,2,1795293009.123456789,-0.000002,0.000001,0.000003,-12.345,-0.010,0.040,0.00001,0.00002,64.2,Normal\n";
    let none = b"00000000,,0,0.000000000,0.0,0.0,0.0,0.0,0.0,0.0,1.0,1.0,0.0,Not synchronised\n";
    replay(&[good.to_vec(), none.to_vec(), vec![b','; 5000]], fuzz_chrony_tracking);
}
