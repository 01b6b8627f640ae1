//! The first bytes of a TCP connection to the server's port. They distinguish control connections, data
//! connections and other protocols.
//!
//! | bytes | control | data |
//! | --- | --- | --- |
//! | 0–5 | [`MAGIC`] | [`MAGIC`] |
//! | 6 | version [`VERSION`] | the same |
//! | 7 | 0 plain, 1 Noise | 2 |
//! | 8–15 | | session, u64 |
//! | 16–19 | | flow, u32 |
//! | 20–35 | | single-use token |
//!
//! All fields are big-endian. The magic starts with a byte that is neither text nor a TLS record, so that a
//! stray HTTP or TLS client is recognised by its first byte. The version precedes everything that a later
//! version might change.

/// The first bytes of every connection of Weir.
pub const MAGIC: [u8; 6] = *b"\xf7WEIR\n";
/// The version this code writes and reads.
pub const VERSION: u8 = 1;
/// Bytes of a control connection's preface.
pub const CONTROL_LEN: usize = 8;
/// Bytes of a data connection's preface.
pub const DATA_LEN: usize = 36;

const MODE_DATA: u8 = 2;

/// Mode of a control connection after its preface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ControlMode {
    /// Plain frames.
    Plain = 0,
    /// A Noise handshake, then encrypted frames.
    Noise = 1,
}

/// A data connection's preface.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DataPreface {
    /// The session that the connection belongs to.
    pub session: u64,
    /// The flow that it carries.
    pub flow: u32,
    /// The single-use token of this connection, from the session's secret. Compare with
    /// [`Self::token_matches`].
    pub token: [u8; 16],
}

impl core::fmt::Debug for DataPreface {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // A token must not reach a log.
        f.debug_struct("DataPreface")
            .field("session", &self.session)
            .field("flow", &self.flow)
            .finish_non_exhaustive()
    }
}

impl DataPreface {
    /// Compares the token in constant time.
    #[must_use]
    pub fn token_matches(&self, expected: &[u8; 16]) -> bool {
        u128::from_ne_bytes(self.token) ^ u128::from_ne_bytes(*expected) == 0
    }

    /// The preface's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; DATA_LEN] {
        let mut out = [0; DATA_LEN];
        out[..8].copy_from_slice(&head(MODE_DATA));
        out[8..16].copy_from_slice(&self.session.to_be_bytes());
        out[16..20].copy_from_slice(&self.flow.to_be_bytes());
        out[20..].copy_from_slice(&self.token);
        out
    }
}

/// Classification of a connection by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preface {
    /// A valid preface so far; more bytes are needed.
    NeedMore,
    /// A control connection; its stream starts after [`CONTROL_LEN`] bytes.
    Control {
        /// Its mode.
        mode: ControlMode,
    },
    /// A data connection; its stream starts after [`DATA_LEN`] bytes.
    Data(DataPreface),
    /// A connection of Weir in an unsupported version, for which a specific error can be sent.
    OtherVersion(u8),
    /// Not a connection of Weir.
    Foreign,
}

impl Preface {
    /// Classifies the first bytes of a connection. Call it again with all bytes so far while it returns
    /// [`Preface::NeedMore`]. It decides at the earliest possible byte, and never needs more than
    /// [`DATA_LEN`] bytes.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Self {
        let seen = bytes.len().min(MAGIC.len());
        if bytes[..seen] != MAGIC[..seen] {
            return Self::Foreign;
        }
        match bytes.get(6) {
            None => return Self::NeedMore,
            Some(&VERSION) => {}
            Some(&other) => return Self::OtherVersion(other),
        }
        match bytes.get(7) {
            None => Self::NeedMore,
            Some(0) => Self::Control { mode: ControlMode::Plain },
            Some(1) => Self::Control { mode: ControlMode::Noise },
            Some(&MODE_DATA) => Self::decode_data(bytes),
            Some(_) => Self::Foreign,
        }
    }

    fn decode_data(bytes: &[u8]) -> Self {
        let Some(bytes) = bytes.first_chunk::<DATA_LEN>() else {
            return Self::NeedMore;
        };
        let (mut session, mut flow, mut token) = ([0; 8], [0; 4], [0; 16]);
        session.copy_from_slice(&bytes[8..16]);
        flow.copy_from_slice(&bytes[16..20]);
        token.copy_from_slice(&bytes[20..]);
        Self::Data(DataPreface {
            session: u64::from_be_bytes(session),
            flow: u32::from_be_bytes(flow),
            token,
        })
    }
}

fn head(mode: u8) -> [u8; CONTROL_LEN] {
    let [a, b, c, d, e, f] = MAGIC;
    [a, b, c, d, e, f, VERSION, mode]
}

/// The preface of a control connection.
#[must_use]
pub fn encode_control(mode: ControlMode) -> [u8; CONTROL_LEN] {
    head(mode as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SAMPLE: DataPreface =
        DataPreface { session: 0x0102, flow: 3, token: *b"sixteen byte tok" };

    #[test]
    fn bytes_on_the_wire() {
        assert_eq!(encode_control(ControlMode::Plain), *b"\xf7WEIR\n\x01\x00");
        assert_eq!(encode_control(ControlMode::Noise), *b"\xf7WEIR\n\x01\x01");
        let bytes = SAMPLE.encode();
        assert_eq!(bytes, *b"\xf7WEIR\n\x01\x02\0\0\0\0\0\0\x01\x02\0\0\0\x03sixteen byte tok");
    }

    #[test]
    fn decides_at_the_earliest_byte() {
        let control = encode_control(ControlMode::Noise);
        for len in 0..8 {
            assert_eq!(Preface::decode(&control[..len]), Preface::NeedMore, "{len}");
            // A wrong byte at any position makes the stream foreign immediately.
            if len < 6 {
                let mut bad = control;
                bad[len] ^= 1;
                assert_eq!(Preface::decode(&bad[..=len]), Preface::Foreign, "{len}");
            }
        }
        assert_eq!(Preface::decode(&control), Preface::Control { mode: ControlMode::Noise });
        let data = SAMPLE.encode();
        for len in 0..DATA_LEN {
            assert_eq!(Preface::decode(&data[..len]), Preface::NeedMore, "{len}");
        }
        assert_eq!(Preface::decode(&data), Preface::Data(SAMPLE));
        assert_eq!(Preface::decode(b"\xf7WEIR\n\x02"), Preface::OtherVersion(2));
        assert_eq!(Preface::decode(b"\xf7WEIR\n\x01\x03"), Preface::Foreign);
        for foreign in [&b"G"[..], b"\x16\x03\x01", b"SSH-2.0", b"\0", b"iperf3-cookie"] {
            assert_eq!(Preface::decode(foreign), Preface::Foreign);
        }
    }

    #[test]
    fn every_bit_of_a_token_is_compared_and_none_printed() {
        assert!(SAMPLE.token_matches(&SAMPLE.token));
        for bit in 0..128 {
            let mut other = SAMPLE.token;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!SAMPLE.token_matches(&other), "bit {bit}");
        }
        assert_eq!(format!("{SAMPLE:?}"), "DataPreface { session: 258, flow: 3, .. }");
    }

    proptest! {
        #[test]
        fn what_was_sent_is_read(session: u64, flow: u32, token: [u8; 16], tail: Vec<u8>) {
            let sent = DataPreface { session, flow, token };
            let mut bytes = sent.encode().to_vec();
            bytes.extend(tail);
            prop_assert_eq!(Preface::decode(&bytes), Preface::Data(sent));
        }
    }
}
