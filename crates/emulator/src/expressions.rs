//! Compiles the pcap expressions of filters, which an engine needs compiled.

use weir_link::pcap::{CompileError, LIBRARY, compile};
use weir_model::ModelError;
use weir_model::impairment::{Impairment, PcapExpression};
use weir_wire::bpf::Program;

/// Compiles the pcap expressions of a configuration that are not compiled yet. Names in them are resolved now, which may wait
/// for a name server. Without expressions, libpcap is not needed.
///
/// # Errors
/// [`ModelError::Field`]: libpcap is missing, or refuses an expression; an expression that a frame alone can't decide.
pub fn compile_filters(config: &Impairment) -> Result<(), ModelError> {
    let mut expressions = config.pcap_expressions();
    expressions.retain(|(_, expression)| expression.program().is_none());
    expressions.into_iter().try_for_each(|(field, expression)| {
        compile_one(expression).map_err(|accepted| ModelError::Field {
            field,
            given: expression.text().into(),
            accepted,
        })
    })
}

/// What is accepted instead, as the error.
fn compile_one(expression: &PcapExpression) -> Result<(), String> {
    let instructions = compile(expression.text()).map_err(|error| match error {
        CompileError::NoLibrary(reason) => {
            format!("no pcap expression without {LIBRARY}, which can't be loaded: {reason}")
        }
        CompileError::Expression(reason) => {
            format!("an expression of pcap-filter(7); libpcap reports: {reason}")
        }
    })?;
    Program::new(&instructions).map_err(|error| {
        format!("an expression that a frame alone decides, without loops: {error}")
    })?;
    expression.set_program(instructions);
    Ok(())
}
