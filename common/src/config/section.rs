//! Objects of the file, each declared once: the declaration is the type that is read, the list of
//! valid names, the schema and the reference.

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::{Range, Ranged};

use super::fault::{Origin, Report, Spot};
use super::leaf::{Kind, Leaf};
use super::nearest::nearest;
use super::tree;

/// A field's value as given, or its default.
#[derive(Debug)]
pub(super) struct Given<T> {
    /// `None`: it was refused, or is missing; that is reported already.
    pub(super) value: Option<T>,
    pub(super) spot: Spot,
}

impl<T> Given<T> {
    pub(super) fn read<L: Leaf<Value = T>>(leaf: &L, value: &Value<'_>, path: String, report: &mut Report<'_>) -> Self {
        let read = leaf.read(value, &path, report);
        Self { value: read, spot: Spot { path, origin: Origin::Given(value.range()) } }
    }

    pub(super) fn is_given(&self) -> bool {
        self.spot.is_given()
    }

    /// A flag of the command line takes the file's place.
    pub(super) fn overrule(&mut self, flag: &str, value: T) {
        *self = Self { value: Some(value), spot: Spot::flag(flag) };
    }
}

impl<T> Given<Option<T>> {
    /// Whether it stands there, and is not `null`.
    pub(super) fn is_set(&self) -> bool {
        !matches!(self.value, Some(None))
    }
}

/// A field as the schema and the reference see it.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) about: String,
    pub(super) kind: Kind,
    /// `None`: it must be given.
    pub(super) default: Option<String>,
}

/// What becomes of a name that is known, but has no effect.
#[derive(Clone, Copy, Debug)]
pub(super) enum Retired {
    /// Accepted with a warning: what replaces it.
    Ignored(&'static str),
    /// Refused: what it needs that is not there.
    Refused(&'static str),
    /// For other programs than this one.
    Foreign(&'static str),
}

pub(super) trait Section: Sized {
    fn about() -> &'static str;
    fn fields() -> Vec<Field>;
    fn retired() -> &'static [(&'static str, Retired)];
    /// Reads the fields, none of the others.
    fn read(reader: &mut Reader<'_, '_>) -> Self;
}

/// Declares a [`Section`]: its fields, each with a leaf, and the names it no longer or not yet knows.
macro_rules! section {
    (
        #[doc = $about:literal]
        $name:ident { $($(#[doc = $doc:literal])+ $field:ident: $leaf:ty = $make:expr,)+ }
        retired { $($old:literal: $why:expr,)* }
    ) => {
        #[doc = $about]
        #[derive(Debug)]
        pub(in crate::config) struct $name {
            $(pub(in crate::config) $field: Given<<$leaf as Leaf>::Value>,)+
        }

        impl Section for $name {
            fn about() -> &'static str {
                $about.trim()
            }

            fn fields() -> Vec<Field> {
                vec![$({
                    let leaf: $leaf = $make;
                    let about = [$($doc.trim()),+].join(" ");
                    Field { name: stringify!($field), about, kind: leaf.kind(), default: leaf.default_text() }
                }),+]
            }

            fn retired() -> &'static [(&'static str, Retired)] {
                &[$(($old, $why)),*]
            }

            fn read(reader: &mut Reader<'_, '_>) -> Self {
                Self { $($field: {
                    let leaf: $leaf = $make;
                    reader.field(stringify!($field), &leaf)
                }),+ }
            }
        }
    };
}
pub(super) use section;

/// Reads the fields of one object; without an object, every default.
pub(super) struct Reader<'r, 's> {
    object: Option<&'r Object<'r>>,
    range: Range,
    path: &'r str,
    report: &'r mut Report<'s>,
}

impl Reader<'_, '_> {
    pub(super) fn field<L: Leaf>(&mut self, name: &str, leaf: &L) -> Given<L::Value> {
        let path = tree::below(self.path, name);
        if let Some(value) = self.object.and_then(|object| tree::field(object, name)) {
            return Given::read(leaf, value, path, self.report);
        }
        let spot = Spot { path, origin: Origin::Within(self.range) };
        let value = leaf.absent(&spot);
        if value.is_none() {
            self.report.fault_at(&spot, format!("`{name}` is missing, and has no default"));
        }
        Given { value, spot }
    }
}

/// A section as the value of a field.
pub(super) struct Nested<S>(std::marker::PhantomData<S>);

impl<S> Nested<S> {
    pub(super) const fn new() -> Self {
        Self(std::marker::PhantomData)
    }
}

impl<S: Section> Leaf for Nested<S> {
    type Value = S;

    fn read(&self, value: &Value<'_>, path: &str, report: &mut Report<'_>) -> Option<S> {
        let Value::Object(object) = value else {
            let (range, found) = (value.range(), tree::spoken(value));
            report.fault(range, path, format!("expected an object, found {found}; put it in {{ }}"));
            return None;
        };
        check_names::<S>(object, path, report);
        Some(S::read(&mut Reader { object: Some(object), range: object.range, path, report }))
    }

    fn absent(&self, spot: &Spot) -> Option<S> {
        let range = match spot.origin {
            Origin::Given(range) | Origin::Within(range) => range,
            Origin::Flag => Range::new(0, 0),
        };
        // Whoever asks for a default says what is wrong with lacking a value.
        let mut unheard = Report::new(None);
        Some(S::read(&mut Reader { object: None, range, path: &spot.path, report: &mut unheard }))
    }

    fn kind(&self) -> Kind {
        Kind::Object { about: S::about(), fields: S::fields(), retired: S::retired() }
    }

    fn default_text(&self) -> Option<String> {
        Some("{}".to_owned())
    }
}

/// Refuses names that are unknown or not yet known, and warns of those that are no longer.
fn check_names<S: Section>(object: &Object<'_>, path: &str, report: &mut Report<'_>) {
    let fields = S::fields();
    for property in &object.properties {
        let name = property.name.as_str();
        let (range, path) = (property.name.range(), tree::below(path, name));
        if fields.iter().any(|field| field.name == name) {
            continue;
        }
        match S::retired().iter().find(|(old, _)| *old == name) {
            Some((_, Retired::Ignored(instead))) => report.warning(range, &path, format!("`{name}` has no effect here: {instead}")),
            Some((_, Retired::Refused(why))) => report.fault(range, &path, format!("`{name}` {why}")),
            Some((_, Retired::Foreign(_))) => {}
            None => report.fault(range, &path, unknown::<S>(name, &fields)),
        }
    }
}

fn unknown<S: Section>(name: &str, fields: &[Field]) -> String {
    let names = fields.iter().map(|field| field.name).chain(S::retired().iter().map(|(old, _)| *old));
    if let Some(near) = nearest(name, names) {
        return format!("there is no field `{name}` here; did you mean `{near}`?");
    }
    match super::schema::sections_with(name).as_slice() {
        [] => {
            let valid: Vec<&str> = fields.iter().map(|field| field.name).collect();
            format!("there is no field `{}` here; fields are {}", name.chars().take(60).collect::<String>(), valid.join(", "))
        }
        elsewhere => format!("there is no field `{name}` here; it belongs in {}", elsewhere.join(" or ")),
    }
}
