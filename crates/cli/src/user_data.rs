//! This user's stored data: runs, and the calibration that is added to them.

use weir_model::record::Record;
use weir_runs::{DataDirectory, Store, StoreError};

use crate::commands::calibrate;

/// Stores a record among this user's runs.
pub(crate) fn keep(record: &Record) -> Result<(), StoreError> {
    Store::open_at(&DataDirectory::of_this_user()?)?.insert(record)
}

/// Adds this host's newest calibration to a record. Without one, or without a store, the record is unchanged: a noise floor
/// that was not measured is absent.
pub(crate) fn add_calibration(record: &mut Record) {
    let Some(host) = record.local.as_ref().map(|h| h.host.clone()) else { return };
    let kept = DataDirectory::of_this_user()
        .and_then(|data| Store::open_existing(&data))
        .ok()
        .flatten()
        .and_then(|store| store.latest_calibration(&host).ok().flatten());
    record.calibration = kept.and_then(|k| calibrate::reference(&k.calibration));
}
