//! How common rows are written.

/// A number in a field of the settings. The conversions lose nothing: bounds fit the field.
macro_rules! number {
    ($unit:ident, $bounds:expr, $($field:ident).+) => {
        Kind::Number {
            unit: Unit::$unit,
            bounds: $bounds,
            get: |settings| settings.$($field).+ as u64,
            set: |settings, number| settings.$($field).+ = number as _,
        }
    };
}

macro_rules! switch {
    ($($field:ident).+) => {
        Kind::Switch { get: |settings| settings.$($field).+, set: |settings, on| settings.$($field).+ = on }
    };
}

/// A word in a field of a type that has `ALL`, `name` and `from_name`.
macro_rules! word {
    ($type:ident, $($field:ident).+) => {
        Kind::Word {
            words: || $type::ALL.map($type::name).to_vec(),
            aliases: Vec::new,
            get: |settings| settings.$($field).+.name(),
            set: |settings, word| put(&mut settings.$($field).+, $type::from_name(word)),
        }
    };
}

/// A part of what an upgrade takes along: a field with a text form.
macro_rules! part {
    ($name:literal, $($field:ident).+, $is_value:expr) => {
        Part {
            name: $name,
            write: |settings| settings.$($field).+.to_string(),
            read: |settings, text| put(&mut settings.$($field).+, text.parse().ok().filter($is_value)),
        }
    };
}
