//! The rows of the demo with the emulator in the middle, as data: the same for real hosts and for the virtual clock.

use weir_model::ModelError;
use weir_model::impairment::{Filter, ImpairFlow, Impairment, Laws, Protocol, Ranges};
use weir_model::plan::{Connection, Direction, Plan, Transport};
use weir_model::units::{ByteSize, Seed, Span};

/// Seed of every draw of the demo.
pub const SEED: Seed = Seed(0x5745_4952);
/// Name of the emulator's flow in cases whose laws apply to the test alone.
const TEST: &str = "test";
/// Source port that the filter of the last UDP case matches, and one that it does not.
const TOUCHED_PORT: u16 = 20_001;
const UNTOUCHED_PORT: u16 = 20_002;
/// Loss threshold: far beyond every delay of the rows, and short, since each row with losses waits for it.
const LOSS_THRESHOLD_MS: u64 = 1000;

/// The claim of a row about one flow of its test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Nothing is lost, copied or damaged, and the delay is that of the path alone.
    Untouched,
    /// The median delay matches the prediction.
    Delay,
    /// As [`Claim::Delay`], and mean and standard deviation are those of the law (an independent delay for each
    /// packet).
    DelayLaw,
    /// Median, mean and standard deviation of the delay match the prediction, in order.
    DelayInOrder,
    /// The law's losses, all measured as lost.
    Loss,
    /// The law's copies, all measured as duplicates.
    Duplication,
    /// The law's damage, all measured as corrupted.
    Corruption,
    /// The law's damage, all measured as lost: the stack drops a wrong checksum.
    CorruptionLost,
    /// The link's rate, and its queue's drops.
    Rate,
    /// Every byte of a stream arrives.
    EveryByte,
}

/// A claim about one flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowClaim {
    /// Flow of the plan, from 1.
    pub flow: u32,
    /// The emulator's flow that its packets belong to.
    pub emulator_flow: &'static str,
    /// What is claimed.
    pub claim: Claim,
}

/// One row: a test through an impairment.
#[derive(Debug, Clone, PartialEq)]
pub struct PathCase {
    /// In words.
    pub name: &'static str,
    /// The laws as arguments.
    pub laws: &'static str,
    /// What the emulator does.
    pub impairment: Impairment,
    /// The test.
    pub plan: Plan,
    /// Claims, one or more for each flow.
    pub claims: Vec<FlowClaim>,
}

impl PathCase {
    /// Whether it can be simulated: a stream's behaviour depends on the kernel.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.plan.connections.iter().all(|c| c.transport.datagrams())
    }
}

/// Which packets a case's laws apply to.
enum LawScope {
    /// All packets, in both directions.
    Everything,
    /// The test's datagrams, forward; not the control connection, which would only be slow.
    Test,
    /// Datagrams from one port, forward.
    Port,
}

fn impairment(laws: &str, touches: &LawScope) -> Result<Impairment, ModelError> {
    let laws: Laws = laws.parse()?;
    let mut out = match touches {
        LawScope::Everything => Impairment::of_both(laws),
        LawScope::Test | LawScope::Port => {
            let port = matches!(touches, LawScope::Port)
                .then(|| Ranges(vec![(TOUCHED_PORT.into(), TOUCHED_PORT.into())]).into());
            let filter = Filter {
                protocol: Some(Protocol(17).into()),
                source_port: port,
                ..Filter::default()
            };
            let flow = ImpairFlow {
                name: TEST.into(),
                filter: Some(filter),
                a_to_b: laws,
                ..ImpairFlow::default()
            };
            Impairment { flows: vec![flow], ..Impairment::default() }
        }
    };
    out.seed = SEED;
    out.check()?;
    Ok(out)
}

fn udp(rate: &str, payload: u64, seconds: u32) -> Result<Connection, ModelError> {
    Ok(Connection {
        transport: Transport::udp(),
        rate: Some(rate.parse()?),
        payload: Some(ByteSize(payload).into()),
        duration: Some(Span::from_seconds(u64::from(seconds))),
        ..Connection::default()
    })
}

/// The cases, each sending for `seconds`.
///
/// # Errors
/// [`ModelError`] for an invalid case, which a test rules out.
pub fn cases(seconds: u32) -> Result<Vec<PathCase>, ModelError> {
    let one = |emulator_flow, claim| vec![FlowClaim { flow: 1, emulator_flow, claim }];
    let loss_threshold = Some(Span(LOSS_THRESHOLD_MS * 1_000_000));
    let case = |name, laws, touches: LawScope, connections, claims| {
        Ok::<_, ModelError>(PathCase {
            name,
            laws,
            impairment: impairment(laws, &touches)?,
            plan: Plan { connections, seed: SEED, loss_threshold, ..Plan::default() },
            claims,
        })
    };
    let paced = || udp("1000pps", 160, seconds);
    let many = || udp("10000pps", 160, seconds);
    let verified = || Ok::<_, ModelError>(Connection { verify: true, ..many()? });
    let from = |port, connection: Connection| connection.with_ip(|ip| ip.client_port = Some(port));
    let back = Connection { direction: Direction::Reverse, ..paced()? };
    Ok(vec![
        case(
            "clean baseline",
            "none",
            LawScope::Everything,
            vec![paced()?],
            one("other", Claim::Untouched),
        )?,
        case(
            "constant delay in each direction",
            "delay 20ms",
            LawScope::Everything,
            vec![paced()?, back],
            vec![
                FlowClaim { flow: 1, emulator_flow: "other", claim: Claim::Delay },
                FlowClaim { flow: 2, emulator_flow: "other", claim: Claim::Delay },
            ],
        )?,
        case(
            "normal delay, may reorder",
            "delay 40ms ±5ms normal allow",
            LawScope::Test,
            vec![paced()?],
            one(TEST, Claim::DelayLaw),
        )?,
        case(
            "normal delay, in order",
            "delay 40ms ±5ms normal fifo-release",
            LawScope::Test,
            vec![paced()?],
            one(TEST, Claim::DelayInOrder),
        )?,
        case("loss", "loss 1%", LawScope::Test, vec![many()?], one(TEST, Claim::Loss))?,
        case(
            "loss in bursts",
            "loss 5% run 4",
            LawScope::Test,
            vec![many()?],
            one(TEST, Claim::Loss),
        )?,
        case(
            "rate",
            "rate 100M queue 50ms",
            LawScope::Test,
            vec![udp("150M", 1472, seconds)?],
            one(TEST, Claim::Rate),
        )?,
        case(
            "duplication",
            "duplicate 0.5%",
            LawScope::Test,
            vec![many()?],
            one(TEST, Claim::Duplication),
        )?,
        case(
            "damage, checksums repaired",
            "corrupt 1% repair",
            LawScope::Test,
            vec![verified()?],
            one(TEST, Claim::Corruption),
        )?,
        case(
            "damage, checksums left",
            "corrupt 1% leave",
            LawScope::Test,
            vec![verified()?],
            one(TEST, Claim::CorruptionLost),
        )?,
        case(
            "one of two UDP ports",
            "loss 10%, delay 10ms",
            LawScope::Port,
            vec![from(TOUCHED_PORT, many()?), from(UNTOUCHED_PORT, paced()?)],
            vec![
                FlowClaim { flow: 1, emulator_flow: TEST, claim: Claim::Loss },
                FlowClaim { flow: 1, emulator_flow: TEST, claim: Claim::Delay },
                FlowClaim { flow: 2, emulator_flow: "other", claim: Claim::Untouched },
            ],
        )?,
        case(
            "TCP over a bad path",
            "loss 0.1%, rate 100M, delay 5ms",
            LawScope::Everything,
            vec![Connection { bytes: Some(ByteSize(4 << 20)), ..Connection::default() }],
            one("other", Claim::EveryByte),
        )?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_holds_and_names_its_flows() {
        let cases = cases(1).unwrap();
        assert_eq!(cases.len(), 12);
        for case in &cases {
            case.plan.check().unwrap();
            assert_eq!(case.impairment.seed, SEED);
            for claim in &case.claims {
                assert!((1..=case.plan.connections.len() as u32).contains(&claim.flow));
                let known = claim.emulator_flow == "other"
                    || case.impairment.flows.iter().any(|f| f.name == claim.emulator_flow);
                assert!(known, "{}: {}", case.name, claim.emulator_flow);
            }
        }
        assert_eq!(cases.iter().filter(|c| !c.is_simulated()).count(), 1);
    }
}
