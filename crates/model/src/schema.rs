//! The published JSON Schemas in docs/schemas. A test generates them from the types and compares, so that
//! they match the code. The program contains the files, not the generating code.
//!
//! For programs that generate forms, they have keywords in addition to JSON Schema's: `x-one-of`, names of
//! properties of which at most one is set (the laws of a slot); `x-follows`, the stage that another one
//! directly follows; `x-stage`, the emulator's stage of a slot or counter; `x-counters`, the emulator's
//! counters; `x-order`, names of properties in the order in which a form shows them; `x-group`, the part of
//! the form that a property belongs to (`what`, `how-much`, `how-long`; without it, `advanced`); `x-unit`,
//! the unit of a number without one. A property's `title` is its label. Their `examples` are valid values.

use std::collections::HashSet;

use schemars::Schema;
use serde::de::value::Error;
use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Value;

/// A published file, included at build time.
macro_rules! published {
    ($name:literal) => {
        serde_json::from_str(include_str!(concat!("../../../docs/schemas/", $name, ".schema.json")))
            .unwrap_or_default()
    };
}

/// The schema of `weir.run/1`.
#[must_use]
pub fn run_schema() -> Value {
    published!("weir.run-1")
}

/// The schema of `weir.plan/1`.
#[must_use]
pub fn plan_schema() -> Value {
    published!("weir.plan-1")
}

/// The schema of `weir.impair/1`. `x-counters` lists the emulator's counters.
#[must_use]
pub fn impair_schema() -> Value {
    published!("weir.impair-1")
}

/// The schema of `weir.scenario/1`.
#[must_use]
pub fn scenario_schema() -> Value {
    published!("weir.scenario-1")
}

/// The schema of `weir.experiment/1`.
#[must_use]
pub fn experiment_schema() -> Value {
    published!("weir.experiment-1")
}

/// The schema of `weir.mesh/1`.
#[must_use]
pub fn mesh_schema() -> Value {
    published!("weir.mesh-1")
}

/// The schema of a line of `weir.watch/1`.
#[must_use]
pub fn watch_schema() -> Value {
    published!("weir.watch-1")
}

/// Adds `x-order` to the schema of a struct: its fields in the order of their declaration.
pub(crate) fn in_order<T: for<'de> Deserialize<'de>>(schema: &mut Schema) {
    let declared = declared::<T>();
    let properties = schema.get("properties").and_then(Value::as_object);
    // Aliases are names too, but no properties.
    let mut seen = HashSet::new();
    let names = declared.iter().filter(|name| {
        seen.insert(**name) && properties.is_some_and(|all| all.contains_key(**name))
    });
    let names = names.map(|name| Value::from(*name)).collect();
    schema.insert("x-order".into(), Value::Array(names));
}

/// The names of a struct's fields in the order of their declaration; none if `T` is not a struct.
pub(crate) fn declared<T: for<'de> Deserialize<'de>>() -> &'static [&'static str] {
    let mut declared: &[&str] = &[];
    // It always fails, once it has the names.
    let _ = T::deserialize(FieldNames(&mut declared));
    declared
}

/// A deserializer that stores the names of a struct's fields and then fails.
struct FieldNames<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("not a struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        *self.0 = fields;
        Err(Error::custom("names only"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Debug;

    use schemars::{JsonSchema, Schema, SchemaGenerator, schema_for};
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use crate::impairment::{self as impair, COUNTERS, Impairment, Stage};

    fn of_impairments() -> Schema {
        let mut generator = SchemaGenerator::default();
        let counters = generator.subschema_for::<impair::Counters>();
        let mut schema = generator.into_root_schema_for::<Impairment>();
        schema.insert("x-counters".into(), counters.to_value());
        schema
    }

    /// The committed files match the types. `WEIR_BLESS=1` rewrites them.
    #[test]
    fn published_schemas_are_current() {
        for (name, schema) in [
            ("weir.run-1", schema_for!(crate::record::Record)),
            ("weir.plan-1", schema_for!(crate::plan::Plan)),
            ("weir.impair-1", of_impairments()),
            ("weir.scenario-1", schema_for!(crate::experiment::Scenario)),
            ("weir.experiment-1", schema_for!(crate::experiment::Experiment)),
            ("weir.mesh-1", schema_for!(crate::watch::Mesh)),
            ("weir.watch-1", schema_for!(crate::watch::Line)),
        ] {
            let path =
                format!("{}/../../docs/schemas/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
            // As a value, whose keys are sorted.
            let text = serde_json::to_string_pretty(&schema.to_value()).unwrap() + "\n";
            if std::env::var_os("WEIR_BLESS").is_some() {
                std::fs::create_dir_all(std::path::Path::new(&path).parent().unwrap()).unwrap();
                std::fs::write(&path, &text).unwrap();
            }
            let committed = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                committed == text,
                "{name} differs from the types: run the test with WEIR_BLESS=1 and commit"
            );
        }
    }

    /// All examples of a type's schema are valid values of the type.
    fn examples_of<T: JsonSchema + DeserializeOwned + Debug>() {
        let schema = schemars::schema_for!(T).to_value();
        let examples = schema["examples"].as_array().cloned().unwrap_or_default();
        assert!(!examples.is_empty(), "{} has none", T::schema_name());
        for one in examples {
            let read = serde_json::from_value::<T>(one.clone());
            assert!(read.is_ok(), "{}: {one} gave {read:?}", T::schema_name());
        }
    }

    #[test]
    fn examples_are_valid() {
        use crate::{content, plan, units};
        examples_of::<units::BitRate>();
        examples_of::<units::ByteSize>();
        examples_of::<units::Span>();
        examples_of::<units::Seed>();
        examples_of::<units::SendRate>();
        examples_of::<units::Dscp>();
        examples_of::<impair::Ranges>();
        examples_of::<impair::Prefixes>();
        examples_of::<impair::Protocol>();
        examples_of::<impair::EtherType>();
        examples_of::<impair::QueueLimit>();
        examples_of::<impair::GilbertElliott>();
        examples_of::<plan::CatchUp>();
        examples_of::<content::Content>();
    }

    /// A property's schema, with references and nullability resolved.
    fn behind<'a>(root: &'a Value, property: &'a Value) -> &'a Value {
        let reference = property["$ref"].as_str().or_else(|| property["anyOf"][0]["$ref"].as_str());
        reference.map_or(property, |name| root.pointer(&name[1..]).unwrap())
    }

    /// The initial value of a form: the first example, else an object of the required parts' examples.
    fn starter(root: &Value, property: &Value) -> Value {
        let schema = behind(root, property);
        for examples in [&property["examples"], &schema["examples"]] {
            if let Some(first) = examples.get(0) {
                return first.clone();
            }
        }
        let required =
            schema["required"].as_array().unwrap_or_else(|| panic!("no example: {property}"));
        let part = |name: &Value| {
            let name = name.as_str().unwrap().to_owned();
            let value = starter(root, &schema["properties"][&name]);
            (name, value)
        };
        Value::Object(required.iter().map(part).collect())
    }

    /// Forms of the published schemas: the order names every property, and a form with groups has one that a user
    /// fills in first, which begins with the name.
    #[test]
    fn forms_have_order_and_groups() {
        let groups = ["what", "how-much", "how-long"];
        let mut grouped = vec![];
        for root in [super::plan_schema(), super::impair_schema()] {
            let inner =
                root["$defs"].as_object().unwrap().iter().map(|(name, of)| (name.clone(), of));
            for (name, object) in inner.chain([(root["title"].to_string(), &root)]) {
                let Some(properties) = object["properties"].as_object() else { continue };
                let order = object["x-order"].as_array().cloned().unwrap_or_default();
                let of =
                    |property: &Value| properties[property.as_str().unwrap()]["x-group"].clone();
                let used: Vec<Value> = order.iter().map(of).filter(|of| !of.is_null()).collect();
                for group in &used {
                    assert!(groups.contains(&group.as_str().unwrap()), "{name}: {group}");
                }
                if !order.is_empty() {
                    let ordered: BTreeSet<&str> = order.iter().filter_map(Value::as_str).collect();
                    assert_eq!(ordered, properties.keys().map(String::as_str).collect(), "{name}");
                }
                if let Some(first) = used.first() {
                    assert_eq!(first, "what", "{name}");
                    grouped.push(name);
                }
            }
        }
        assert_eq!(grouped.len(), 5, "{grouped:?}");
        let plan = super::plan_schema();
        assert_eq!(plan["$defs"]["Connection"]["x-order"][0], "name");
    }

    fn checked(slot: &str, value: &Value) -> Result<(), String> {
        let other = json!({ "a_to_b": { slot: value } });
        let document = json!({ "schema": impair::IMPAIR_SCHEMA, "other": other });
        Impairment::parse(&document.to_string()).map(drop).map_err(|e| e.to_string())
    }

    /// In every slot, `x-one-of` names exactly the properties that the parser accepts alone but not together,
    /// and initial values of forms are valid. A law that is missing from a list fails here.
    #[test]
    fn schema_names_exclusive_laws() {
        let root = super::impair_schema();
        let mut with_laws = 0;
        for (slot, property) in root["$defs"]["Laws"]["properties"].as_object().unwrap() {
            if property["x-stage"].is_null() {
                continue;
            }
            let schema = behind(&root, property);
            let properties = schema["properties"].as_object().unwrap();
            let Some(laws) = schema["x-one-of"].as_array() else {
                checked(slot, &starter(&root, property)).unwrap();
                continue;
            };
            with_laws += 1;
            let laws: Vec<&str> = laws.iter().map(|one| one.as_str().unwrap()).collect();
            for law in &laws {
                checked(slot, &json!({ *law: starter(&root, &properties[*law]) })).unwrap();
            }
            for (name, of) in properties {
                let value = match of
                    .get("default")
                    .or_else(|| behind(&root, of)["oneOf"][0].get("const"))
                {
                    Some(value) => value.clone(),
                    None => starter(&root, of),
                };
                for law in laws.iter().filter(|law| *law != name) {
                    let both = json!({ *law: starter(&root, &properties[*law]), name: value });
                    let read = checked(slot, &both);
                    // An option that this law lacks is refused by its own name.
                    let lacks = |error: &String| error.contains(&format!(".{slot}.{name}: "));
                    let is_law = laws.contains(&name.as_str());
                    let is_exclusive = read.as_ref().is_err_and(|error| is_law || !lacks(error));
                    assert_eq!(is_exclusive, is_law, "{both}: {read:?}");
                }
            }
        }
        assert_eq!(with_laws, 5);
    }

    /// All slots and counters have a stage of the engine.
    #[test]
    fn stages_have_slots_and_counters() {
        let root = super::impair_schema();
        let laws = &root["$defs"]["Laws"]["properties"];
        for stage in Stage::DEFAULT_ORDER {
            let name = Value::from(stage.name());
            let of = |one: &&Value| one["x-stage"] == name;
            assert!(laws.as_object().unwrap().values().any(|one| of(&one)), "{name} has no slot");
            let counters =
                root.pointer(&root["x-counters"]["$ref"].as_str().unwrap()[1..]).unwrap();
            let counted = counters["properties"].as_object().unwrap().values().filter(of).count();
            assert_eq!(counted, COUNTERS.iter().filter(|one| one.stage == Some(stage)).count());
            assert!(counted > 0, "{name} counts nothing");
        }
    }

    /// Parts of a record that are not measurements: identity, request, hosts, verdicts. `servers` has the parts of
    /// the record for each server. Counters of emulators are defined in docs/emulator.md.
    const NOT_MEASURED: [&str; 24] = [
        "servers",
        "schema",
        "id",
        "version",
        "build",
        "started_at",
        "seconds",
        "status",
        "end_reason",
        "command",
        "commands",
        "plan",
        "plan_sha256",
        "seed",
        "labels",
        "peer",
        "local",
        "remote",
        "impairment",
        "calibration",
        "loss_threshold_seconds",
        "warnings",
        "verdict",
        "name",
    ];
    /// Fields that identify a flow or its transfers.
    const IDENTITY: [&str; 14] = [
        "id",
        "name",
        "host",
        "transport",
        "carried_by",
        "family",
        "direction",
        "source",
        "destination",
        "payload_bytes",
        "payload_law",
        "spacing_law",
        "volume_law",
        "pause_law",
    ];

    /// Collects the fields of all objects of a schema, as pairs of the object's key and the field.
    fn fields(root: &Value, schema: &Value, key: &str, out: &mut BTreeSet<(String, String)>) {
        if let Some(name) = schema["$ref"].as_str() {
            let name = name.trim_start_matches("#/$defs/");
            return fields(root, &root["$defs"][name], key, out);
        }
        for one in schema["anyOf"].as_array().into_iter().flatten() {
            fields(root, one, key, out);
        }
        if schema["items"].is_object() {
            fields(root, &schema["items"], key, out);
        }
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let is_other = key.is_empty() && NOT_MEASURED.contains(&name.as_str());
            let is_identified = ["flows", "transfers"].contains(&key);
            if is_other || is_identified && IDENTITY.contains(&name.as_str()) {
                continue;
            }
            let mut below = BTreeSet::new();
            fields(root, field, name, &mut below);
            if below.is_empty() {
                out.insert((key.into(), name.clone()));
            }
            out.append(&mut below);
        }
    }

    /// The cells of a row of a table.
    fn cells(line: &str) -> Option<Vec<&str>> {
        let line = line.strip_prefix('|')?.strip_suffix('|')?;
        Some(line.split('|').map(str::trim).collect())
    }

    /// docs/METHODOLOGY.md and the record have the same figures: each documented figure has its fields in the
    /// schema, and each measured field of the schema belongs to a documented figure.
    #[test]
    fn methodology_and_record_agree() {
        const INDEX: &str = "Where the figures are";
        let path = format!("{}/../../docs/METHODOLOGY.md", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        let (mut section, mut defined, mut headings) = ("", BTreeSet::new(), BTreeSet::new());
        let (mut indexed, mut documented) = (BTreeSet::new(), BTreeSet::new());
        for line in text.lines() {
            if let Some(heading) = line.strip_prefix("## ") {
                section = heading;
                headings.insert(heading);
            }
            let Some(cells) = cells(line) else { continue };
            if ["figure", "metric"].contains(&cells[0]) || cells[0].starts_with("---") {
                continue;
            }
            // This section is generated from the declarations.
            if section == "Metrics by name" {
                continue;
            }
            if section != INDEX {
                let of_others =
                    ["Comparing", "Asked, realised, measured", "Losses of an emulator on the path"];
                if !of_others.contains(&section) {
                    defined.insert(cells[0]);
                }
                continue;
            }
            indexed.insert(cells[0]);
            let [_, objects, names] = cells[..] else { panic!("{line}") };
            for object in objects.split(", ").filter(|object| *object != "-") {
                for field in names.split(", ") {
                    documented.insert((object.to_string(), field.to_string()));
                }
            }
        }
        for (object, field) in crate::metric::METRICS.iter().flat_map(|m| m.fields()) {
            documented.insert((object.to_string(), field.to_string()));
        }
        let missing: Vec<_> = defined.difference(&indexed).collect();
        assert!(missing.is_empty(), "figures without an entry in {INDEX}: {missing:?}");
        let undefined = indexed.iter().filter(|i| !defined.contains(*i) && !headings.contains(*i));
        assert_eq!(
            undefined.collect::<Vec<_>>(),
            Vec::<&&str>::new(),
            "entries without a definition"
        );
        let schema = super::run_schema();
        let mut measured = BTreeSet::new();
        fields(&schema, &schema, "", &mut measured);
        let absent: Vec<_> = documented.difference(&measured).collect();
        assert!(absent.is_empty(), "documented, but not in the record: {absent:?}");
        // Sums and intervals have the same fields for both ends.
        let is_of_an_end = |(object, field): &(String, String)| {
            let ends = ["sender", "receiver"];
            ends.contains(&object.as_str())
                && ends.iter().any(|end| documented.contains(&(end.to_string(), field.clone())))
        };
        let unexplained = measured.difference(&documented).filter(|pair| !is_of_an_end(pair));
        let unexplained: Vec<_> = unexplained.collect();
        assert!(unexplained.is_empty(), "in the record, but not documented: {unexplained:?}");
    }
}
