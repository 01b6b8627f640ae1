//! A system without network namespaces: no lab can be made, so that nothing else here is ever called.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use crate::error::Error;
use crate::host::Host;
use crate::spec::{LabName, LabSpec};

/// A running lab, of which there is none.
#[derive(Debug)]
pub struct Lab(Infallible);

impl Lab {
    /// Refused.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub fn up(_: &LabSpec) -> Result<Self, Error> {
        Err(Error::Unavailable)
    }

    /// Never called.
    pub fn hosts(&self) -> std::iter::Empty<&Host> {
        match self.0 {}
    }

    /// Never called.
    pub fn host(&self, _name: &str) -> Result<&Host, Error> {
        match self.0 {}
    }

    /// Never called.
    pub fn is_in_user_namespace(&self) -> bool {
        match self.0 {}
    }

    /// Never called.
    pub fn command(&self, _node: &str, _program: impl AsRef<OsStr>) -> Result<Command, Error> {
        match self.0 {}
    }

    /// Never called.
    pub fn run_in<T: Send>(
        &self,
        _node: &str,
        _work: impl FnOnce() -> T + Send,
    ) -> Result<T, Error> {
        match self.0 {}
    }
}

/// The labs that are up, of which there are none.
#[derive(Debug)]
pub struct Registry(Infallible);

impl Registry {
    /// Refused.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub fn open() -> Result<Self, Error> {
        Err(Error::Unavailable)
    }

    /// Never called.
    pub fn list(&self) -> Result<Vec<JoinedLab>, Error> {
        match self.0 {}
    }
}

/// A lab that is up, of which there is none.
#[derive(Debug)]
pub struct JoinedLab(Infallible);

impl JoinedLab {
    /// Never called.
    pub fn name(&self) -> &LabName {
        match self.0 {}
    }

    /// Never called.
    pub fn hosts(&self) -> std::slice::Iter<'_, Host> {
        match self.0 {}
    }

    /// Never called.
    pub fn node_names(&self) -> std::iter::Empty<&str> {
        match self.0 {}
    }
}

/// Refused.
///
/// # Errors
/// [`Error::Unavailable`].
pub fn runtime_directory() -> Result<PathBuf, Error> {
    Err(Error::Unavailable)
}
