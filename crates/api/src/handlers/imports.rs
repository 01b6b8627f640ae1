//! Files with results: records, or those of other tools.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use weir_exchange::{FileFormat, ImportError, ImportFile, Maker, ReadError, decompressed, import};
use weir_runs::{Edge, Imported, StoreError, moment_of};

use super::runs::of_store;
use super::{answer, heavy};
use crate::app::Shared;
use crate::bodies::file_weight;
use crate::clock;
use crate::extract::{ApiClient, FileBody, Query, take_values};
use crate::problem::{FieldError, Problem, pointer};
use crate::types::*;

pub(crate) async fn import_file(
    State(app): State<Shared>,
    client: ApiClient,
    Query(query): Query<ImportQuery>,
    FileBody(bytes, memory): FileBody,
) -> Result<Response, Problem> {
    let now = clock::unix_ms() as i64;
    let modified = query.modified_at.as_ref().map(|text| {
        moment_of(text, now, Edge::Since).map_err(|e| Problem::of_model("?modified_at", &e))
    });
    let modified_ms = u64::try_from(modified.transpose()?.unwrap_or(now)).unwrap_or(0);
    let maker = Maker { version: app.config.version.clone(), build: app.config.build.clone() };
    let (data, most) = (app.config.data.clone(), app.config.limits.body_bytes);
    let done = heavy(&app, move || {
        // A compressed file has the limits of its content.
        let content = decompressed(&bytes, most).map_err(of_file)?;
        take_values(&memory, content.len() + file_weight(&content))?;
        let format = FileFormat::Auto;
        let file = ImportFile { content: &mut &content[..], format, modified_ms };
        import(file, &maker, &data).map_err(|error| match error {
            ImportError::Read(error) => Problem::internal(error),
            ImportError::File(error) => of_file(error),
            ImportError::Store(error) => of_store_file(error),
        })
    })
    .await?;
    // Each client loads its list again, whichever run the event names.
    if let Some(id) = done.ids.first().filter(|_| done.added > 0) {
        app.edited(format!("runs/{id}"), &client.name(), None);
    }
    let status = if done.added > 0 { StatusCode::CREATED } else { StatusCode::OK };
    let Imported { added, already_there, ids } = done;
    Ok(answer(status, &ImportedFile { added, already_there, ids }, None))
}

/// A file that can't be read, with the place in it.
fn of_file(error: ReadError) -> Problem {
    let message = error.to_string();
    // The file is the whole body.
    let field = error.field.filter(|field| field != "FILE");
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, message.clone()).with(FieldError {
        field: field.map(|field| pointer(&field)).unwrap_or_default(),
        given: Some(error.given),
        accepted: Some(error.accepted),
        message,
    })
}

/// An error of the store about a file of several records.
fn of_store_file(error: StoreError) -> Problem {
    // The number says which record.
    let detail = error.to_string();
    let is_of_record = matches!(error, StoreError::Import { .. });
    let problem = of_store(error);
    if is_of_record { Problem { detail, ..problem } } else { problem }
}
