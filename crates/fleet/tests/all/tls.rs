//! TLS, and lists of servers.

use std::path::Path;
use std::process::{Command, Stdio};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use weir_fleet::{Connection, Controller};

use crate::agent::submit;
use crate::server::{Agent, LIMIT, Server, outcomes, script};

/// Makes `certificate.pem` and `key.pem` of a server on loopback; `false` after printing that the test is skipped.
fn certificate(test: &str, directory: &Path) -> bool {
    let configuration = "[req]\ndistinguished_name = name\n[name]\n[server]\n\
                         basicConstraints = critical, CA:FALSE\nsubjectAltName = IP:127.0.0.1\n";
    std::fs::write(directory.join("openssl.conf"), configuration).unwrap();
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args([
            "-subj",
            "/CN=weir",
            "-days",
            "2",
            "-config",
            "openssl.conf",
            "-extensions",
            "server",
        ])
        .args(["-keyout", "key.pem", "-out", "certificate.pem"])
        .current_dir(directory)
        .stderr(Stdio::null())
        .status();
    match made {
        Ok(status) => assert!(status.success(), "openssl: {status}"),
        Err(error) => eprintln!("SKIPPED {test}: openssl: {error}"),
    }
    directory.join("certificate.pem").exists()
}

#[tokio::test]
async fn a_server_must_prove_itself_by_its_certificate() {
    let test = "a_server_must_prove_itself_by_its_certificate";
    let directory = tempfile::tempdir().unwrap();
    if !certificate(test, directory.path()) {
        return;
    }
    let file = |name: &str| directory.path().join(name);
    let tls = format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\" }}\n",
        file("certificate.pem").display(),
        file("key.pem").display()
    );
    let Some(mut server) = Server::start_with(test, &["a"], |_| tls) else { return };
    server.reached().await;
    server.url = server.url.replace("nats://", "tls://");
    // No authority of this system signed it.
    let connection = server.controller_connection();
    let refused = Controller::connect(&connection, 1).await.err().unwrap();
    assert_eq!(refused.refusal().exit_code, 3);

    server.ca_file = Some(file("certificate.pem"));
    let controller = server.controller().await;
    let _agent = Agent::start(&server, "a", script(server.directory.path(), "exit 0"));
    submit(&controller, "a", &["1"]).await;
    assert_eq!(outcomes(&controller, "a", &["1"]).await[0].exit_code, Some(0));
}

/// A server without TLS: passes on what it gets.
async fn clear(got: mpsc::UnboundedSender<Vec<u8>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let info = "INFO {\"server_id\":\"x\",\"version\":\"2.15.0\",\"proto\":1,\"host\":\"x\",\"port\":1,\
                        \"headers\":true,\"max_payload\":1048576,\"nonce\":\"bm9uY2U\"}\r\n";
            let _ = stream.write_all(info.as_bytes()).await;
            let mut buffer = vec![0; 4096];
            let count = stream.read(&mut buffer).await.unwrap_or(0);
            let _ = got.send(buffer[..count].to_vec());
        }
    });
    port
}

#[tokio::test]
async fn no_server_of_a_list_with_tls_gets_anything_in_the_clear() {
    let (sender, mut got) = mpsc::unbounded_channel();
    let (one, two) = (clear(sender.clone()).await, clear(sender).await);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("key");
    std::fs::write(&file, weir_fleet::new_key().unwrap().seed).unwrap();
    let connection = Connection {
        url: format!("nats://127.0.0.1:{one},tls://127.0.0.1:{two}"),
        nkey_file: Some(file),
        ca_file: None,
    };
    let refused = Controller::connect(&connection, 1).await.err().unwrap();
    assert_eq!(refused.refusal().exit_code, 3);
    for _ in 0..2 {
        let bytes = tokio::time::timeout(LIMIT, got.recv()).await.unwrap().unwrap();
        // A record of TLS that has a handshake, or nothing.
        assert!(matches!(bytes[..], [] | [0x16, 3, ..]), "{bytes:?}");
    }
}

#[tokio::test]
async fn silent_servers_leave_time_for_the_others() {
    let test = "silent_servers_leave_time_for_the_others";
    let Some(server) = Server::start(test, &["a"]) else { return };
    server.reached().await;
    // They accept connections and say nothing.
    let silent = [
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
    ];
    let ports = silent.each_ref().map(|listener| listener.local_addr().unwrap().port());
    let mut connection = server.controller_connection();
    connection.url =
        format!("nats://127.0.0.1:{},nats://127.0.0.1:{},{}", ports[0], ports[1], server.url);
    // The order in which they are tried is random.
    for _ in 0..2 {
        let connecting = Controller::connect(&connection, 1);
        tokio::time::timeout(LIMIT, connecting).await.unwrap().unwrap();
    }
}
