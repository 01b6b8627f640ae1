//! What the worker reads, and what it waits for.

use std::sync::mpsc::channel;

use weir_model::plan::TransportName;
use weir_net::poll::{Poller, Waker};

use super::super::tests::{spec, stream};
use super::*;

fn inbox() -> Inbox<Command> {
    let poller = Poller::new().unwrap();
    let waker = Waker::new(&poller, INBOX).unwrap();
    Inbox { commands: channel().1, poller, waker }
}

/// Adds the server of a stream with requests of 1 byte; returns the client's socket.
fn add_server(
    token: u64,
    response: usize,
    flows: &mut HashMap<u64, Slot>,
    context: &mut Context,
) -> weir_net::tcp::TcpStream {
    let (near, far) = stream();
    near.set_buffers(64 << 10).unwrap();
    let spec = spec(1, TransportName::Tcp);
    let flow = TransactFlow {
        id: 1,
        link: Link::Stream(crate::transport::stream(&spec).unwrap().socket(&spec, near)),
        side: Side::Server(Arc::new(Mutex::new(StreamReceiving::new(None)))),
        content: Content::Zeros,
        seed: 1,
        request: 1,
        response,
        number: 0,
        transfers: None,
        framed: None,
        events: tokio::sync::mpsc::unbounded_channel().0,
    };
    add(token, Box::new(flow), flows, context);
    far
}

/// Serves a stream with requests of 1 byte and longer responses, whose client sends some and reads none; calls `then` with
/// the slot, the context and the client's socket.
fn with_unread_responses(
    requests: usize,
    response: usize,
    then: impl FnOnce(&mut Slot, &mut Context, &weir_net::tcp::TcpStream),
) {
    let inbox = inbox();
    let mut context = Context::new(&inbox, &Clock::System);
    let mut flows = HashMap::new();
    let far = add_server(1, response, &mut flows, &mut context);
    assert_eq!(far.send(&vec![0; requests]).unwrap(), requests);
    let mut arrived = PollEvents::new(4);
    while !arrived.iter().any(|event| event.token == 1) {
        context.inbox.poller.wait(&mut arrived, None).unwrap();
    }
    let slot = flows.get_mut(&1).unwrap();
    serve(1, slot, true, &mut context);
    // Its turn may be over before the socket is full.
    while slot.interest == Interest::READ {
        serve(1, slot, false, &mut context);
    }
    then(slot, &mut context, &far);
}

fn requests(slot: &Slot) -> u64 {
    let Side::Server(state) = &slot.flow.side else { panic!("a client") };
    lock(state).bytes()
}

#[test]
fn a_server_reads_no_request_while_its_responses_are_not_read() {
    with_unread_responses(2, 2 << 20, |slot, context, client| {
        // With interest in input it would be woken without end.
        assert_eq!(slot.interest, Interest::WRITE);
        let (mut got, mut buffer) = (0, vec![0; 64 << 10]);
        while got < 4 << 20 {
            got += client.recv(&mut buffer).unwrap();
            serve(1, slot, false, context);
        }
        assert_eq!((got, requests(slot)), (4 << 20, 2));
        assert_eq!(slot.interest, Interest::READ);
    });
}

#[test]
fn requests_that_were_read_together_are_owed_one_by_one() {
    with_unread_responses(10_000, 16 << 20, |slot, _, _| {
        assert_eq!((requests(slot), slot.interest), (1, Interest::WRITE));
        assert!(slot.left <= 16 << 20);
        assert_eq!(slot.have, 9999);
    });
}

/// Whether the receives of a flow wait.
fn is_waiting(flows: &HashMap<u64, Slot>, token: u64) -> bool {
    let socket = weir_net::socket::borrow(flows[&token].flow.link.as_socket().unwrap());
    !socket2::SockRef::from(&socket).nonblocking().unwrap()
}

/// Whether the poller reports a flow within `limit_ns`.
fn is_polled(context: &Context, token: u64, limit_ns: u64) -> bool {
    let mut events = PollEvents::new(4);
    context.inbox.poller.wait(&mut events, Some(limit_ns)).unwrap();
    events.iter().any(|event| event.token == token)
}

#[test]
fn an_only_flow_waits_in_its_receive_call_while_its_messages_follow_quickly() {
    let inbox = inbox();
    let mut context = Context::new(&inbox, &Clock::System);
    let mut flows = HashMap::new();
    let client = add_server(1, 1, &mut flows, &mut context);
    let mut lone = Lone::new(0);
    // Not before several short waits in a row.
    let quickly = |lone: &mut Lone| (0..16).for_each(|_| lone.woke(20_000, true));
    quickly(&mut lone);
    lone.woke(20_000_000, true);
    assert!(!lone.serve(&mut flows, &mut context));
    quickly(&mut lone);
    client.send(&[0]).unwrap();
    assert!(lone.serve(&mut flows, &mut context));
    assert!(is_waiting(&flows, 1));
    assert_eq!(client.recv(&mut [0; 2]).unwrap(), 1);
    // The poller does not report it meanwhile.
    client.send(&[0]).unwrap();
    assert!(!is_polled(&context, 1, 0));
    assert!(lone.serve(&mut flows, &mut context));
    // Nothing arrives: it returns, so that the worker sees its commands, and the poller waits again.
    assert!(lone.serve(&mut flows, &mut context));
    assert!(!is_waiting(&flows, 1));
    assert!(!lone.serve(&mut flows, &mut context));
    client.send(&[0]).unwrap();
    assert!(is_polled(&context, 1, 10_000_000_000));
    // A second flow: neither of the two may keep the other waiting.
    quickly(&mut lone);
    client.send(&[0]).unwrap();
    assert!(lone.serve(&mut flows, &mut context) && is_waiting(&flows, 1));
    let _second = add_server(2, 1, &mut flows, &mut context);
    assert!(!lone.serve(&mut flows, &mut context));
    assert!(!is_waiting(&flows, 1) && !is_waiting(&flows, 2));
}

#[test]
fn a_flow_with_a_deadline_does_not_wait_in_its_receive_call() {
    let inbox = inbox();
    let mut context = Context::new(&inbox, &Clock::System);
    let mut flows = HashMap::new();
    let client = add_server(1, 1, &mut flows, &mut context);
    let mut lone = Lone::new(0);
    (0..16).for_each(|_| lone.woke(20_000, true));
    client.send(&[0]).unwrap();
    let due = context.clock.monotonic_ns() + 1_000_000;
    wake_at(due, 1, flows.get_mut(&1).unwrap(), &mut context);
    assert!(!lone.serve(&mut flows, &mut context));
    assert!(!is_waiting(&flows, 1));
}
