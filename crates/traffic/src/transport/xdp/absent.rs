//! Systems without XDP.

use std::net::SocketAddr;
use std::sync::Arc;

use weir_model::plan::FlowSpec;
use weir_net::udp::UdpSocket;

use crate::flows::SessionFacts;
use crate::transport::{DatagramSocket, FrameSocket};

const ABSENT: &str = "not available on this system: XDP is a part of Linux";

/// The client's end, of which there is none.
#[derive(Debug, Clone)]
pub(crate) enum SendEnd {}

/// A client's programs, of which there are none.
#[derive(Debug, Default)]
pub(crate) struct Senders;

impl Senders {
    pub(crate) fn towards(&self, _: SocketAddr, _: Option<&str>) -> Result<SendEnd, String> {
        Err(ABSENT.into())
    }
}

impl SendEnd {
    pub(crate) fn max_payload(&self, _: &FlowSpec, _: SocketAddr) -> u64 {
        match *self {}
    }

    pub(crate) fn name(&self) -> &str {
        match *self {}
    }

    pub(crate) fn sender(
        &self,
        _: &FlowSpec,
        _: &SessionFacts,
        _: UdpSocket,
    ) -> Result<Arc<dyn DatagramSocket>, String> {
        match *self {}
    }

    pub(crate) fn frame_sender(
        &self,
        _: &FlowSpec,
        _: &SessionFacts,
        _: FrameSocket,
    ) -> Result<Arc<dyn DatagramSocket>, String> {
        match *self {}
    }
}

/// A server's programs, of which there are none.
#[derive(Debug, Default)]
pub(crate) struct Receivers;

impl Receivers {
    pub(crate) fn towards(&self, _: SocketAddr) -> Result<ReceiveEnd, String> {
        Err(ABSENT.into())
    }
}

/// A server's end, of which there is none.
#[derive(Debug, Clone)]
pub(crate) enum ReceiveEnd {}

impl ReceiveEnd {
    pub(crate) fn receiver(
        &self,
        _: &FlowSpec,
        _: &SessionFacts,
        _: UdpSocket,
    ) -> Result<Arc<dyn DatagramSocket>, String> {
        match *self {}
    }

    pub(crate) fn frame_receiver(
        &self,
        _: &FlowSpec,
        _: &SessionFacts,
        _: FrameSocket,
    ) -> Result<Arc<dyn DatagramSocket>, String> {
        match *self {}
    }
}
