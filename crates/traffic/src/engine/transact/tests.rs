//! What the worker reads, and what it waits for.

use std::sync::mpsc::channel;

use weir_model::plan::TransportName;
use weir_net::poll::{Poller, Waker};

use super::super::tests::{spec, stream};
use super::*;

/// Serves a stream with requests of 1 byte and longer responses, whose client sends some and reads none; calls `then` with
/// the slot, the context and the client's socket.
fn with_unread_responses(
    requests: usize,
    response: usize,
    then: impl FnOnce(&mut Slot, &mut Context, &weir_net::tcp::TcpStream),
) {
    let poller = Poller::new().unwrap();
    let waker = Waker::new(&poller, INBOX).unwrap();
    let (_commands, receiver) = channel();
    let inbox = Inbox { commands: receiver, poller, waker };
    let mut context =
        Context { shared: Shared::new(), heap: Heap::new(), inbox: &inbox, clock: &Clock::System };
    let (near, far) = stream();
    near.set_buffers(64 << 10).unwrap();
    let spec = spec(1, TransportName::Tcp);
    let (events, _inbox) = tokio::sync::mpsc::unbounded_channel();
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
        events,
    };
    let mut flows = HashMap::new();
    add(1, Box::new(flow), &mut flows, &mut context);
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
