//! Stand-ins for the commands that need Linux: on other systems each is refused with exit code 4.

use std::ffi::OsString;

use clap::Args;

use crate::error::CliError;

/// The refusal of a command or a flag.
pub(crate) fn not_available<T>(what: &str) -> Result<T, CliError> {
    Err(CliError::Unavailable(format!("{what}: not available on this system")))
}

/// Declares the arguments of such a command: it accepts any.
macro_rules! arguments {
    ($name:ident) => {
        /// Not available on this system
        #[derive(Debug, Args)]
        #[command(disable_help_flag = true)]
        pub(crate) struct $name {
            #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
            given: Vec<std::ffi::OsString>,
        }
    };
}

type Done = Result<i32, CliError>;

pub(crate) mod calibrate {
    use super::*;
    arguments!(CalibrateArgs);

    pub(crate) fn run(_: CalibrateArgs) -> Done {
        not_available("weir calibrate")
    }

    pub(crate) fn run_job(_: &weir_jobs::CalibrateJob) -> Done {
        not_available("calibrate")
    }

    /// Always `None`: this system stores no calibrations.
    pub(crate) fn reference(_: &serde_json::Value) -> Option<weir_model::record::CalibrationRef> {
        None
    }
}

pub(crate) mod demo {
    use super::*;
    arguments!(DemoArgs);

    pub(crate) fn run(_: &DemoArgs, _: &[OsString]) -> Done {
        not_available("weir demo")
    }

    pub(crate) fn run_job(_: &weir_jobs::DemoJob) -> Done {
        not_available("demo")
    }
}

pub(crate) mod doctor {
    use super::*;
    arguments!(DoctorArgs);

    pub(crate) fn run(_: DoctorArgs) -> Done {
        not_available("weir doctor")
    }

    pub(crate) fn run_job() -> Done {
        not_available("doctor")
    }
}

pub(crate) mod impair {
    use super::*;
    arguments!(ImpairArgs);

    /// An emulator's error; it has no values, since there is no emulator.
    #[derive(Debug, thiserror::Error)]
    pub(crate) enum Error {}

    impl Error {
        /// Never called.
        pub(crate) fn code(&self) -> &'static str {
            match *self {}
        }
    }

    /// Never called.
    pub(crate) fn refusal(error: &Error) -> weir_model::Refusal {
        match *error {}
    }

    /// Never called.
    pub(crate) fn exit_code(error: &Error) -> i32 {
        match *error {}
    }

    pub(crate) fn run(_: ImpairArgs) -> Done {
        not_available("weir impair")
    }

    pub(crate) fn run_job(_: weir_jobs::EmulatorJob) -> Done {
        not_available("emulator")
    }
}

pub(crate) mod lab {
    use super::*;
    arguments!(LabArgs);

    pub(crate) fn run(_: LabArgs) -> Done {
        not_available("weir lab")
    }

    pub(crate) fn up_job(_: weir_jobs::LabUpJob) -> Done {
        not_available("lab_up")
    }

    pub(crate) fn down_job(_: &weir_jobs::LabDownJob) -> Done {
        not_available("lab_down")
    }
}
