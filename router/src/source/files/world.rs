//! Every object of the folder. A bad file or document keeps the last good form of what it held;
//! everything else moves on.

use std::collections::{BTreeMap, BTreeSet};

use crds::compile::{Objects, Scope};
use serde_json::Value;

use super::document::split;
use super::folder::Contents;
use super::object::{Bad, Id, Object, identify, read};
use crate::fleet::roster::ByNamespace;

/// The objects of the folder, and what is wrong with it.
#[derive(Clone, Debug, Default)]
pub(super) struct World {
    objects: BTreeMap<Id, Kept>,
    /// The spec that each object last had and its generation; it outlives the object, so that one
    /// that comes back is another edit.
    specs: BTreeMap<Id, (Value, i64)>,
    /// Sorted and unique.
    pub(super) problems: BTreeSet<String>,
}

#[derive(Clone, Debug)]
struct Kept {
    file: String,
    object: Object,
    /// Some form of it was good at some time.
    good: bool,
}

impl World {
    /// The world after this one, when the folder holds `contents`.
    pub(super) fn next(&self, contents: &Contents) -> Self {
        let mut next = Self {
            specs: self.specs.clone(),
            ..Self::default()
        };
        let mut broken = BTreeSet::new();
        for (file, content) in contents {
            match content.as_ref() {
                Ok(text) => next.read_file(self, file, text, &mut broken),
                Err(error) => {
                    broken.insert(file.as_str());
                    let problem = format!("{file}: cannot be read ({error}): {KEPT}");
                    next.problems.insert(problem);
                }
            }
        }
        for (id, kept) in &self.objects {
            if broken.contains(kept.file.as_str()) && !next.objects.contains_key(id) {
                next.objects.insert(id.clone(), kept.clone());
            }
        }
        next
    }

    fn read_file<'a>(
        &mut self,
        before: &Self,
        file: &'a str,
        text: &str,
        broken: &mut BTreeSet<&'a str>,
    ) {
        for document in split(file, text) {
            let place = format!("{file}, document {}", document.number);
            match document
                .content
                .and_then(|content| Ok((identify(&content)?, content)))
            {
                Ok((id, content)) => self.read_object(before, file, &place, (id, content)),
                Err(error) => {
                    broken.insert(file);
                    self.problems.insert(format!("{place}: {error}; {KEPT}"));
                }
            }
        }
    }

    fn read_object(&mut self, before: &Self, file: &str, place: &str, (id, content): (Id, Value)) {
        if let Some(first) = self.objects.get(&id) {
            let other = &first.file;
            self.problems.insert(format!(
                "{place}: {id} is already in {other}, which is used: remove one of them"
            ));
            return;
        }
        let generation = self.generation(&id, &content);
        let last = before.objects.get(&id);
        let (object, good) = match read(&id, content, generation) {
            Ok(object) => (Some(object), true),
            Err(Bad { error, entry }) => {
                let good = last.is_some_and(|last| last.good);
                let until = if good {
                    "its last good form is used until it is corrected"
                } else {
                    "nothing of it is used until it is corrected"
                };
                self.problems
                    .insert(format!("{place}, {id}: {error}; {until}"));
                (
                    entry
                        .map(|entry| *entry)
                        .or_else(|| last.map(|last| last.object.clone())),
                    good,
                )
            }
        };
        if let Some(object) = object {
            let file = file.to_owned();
            self.objects.insert(id, Kept { file, object, good });
        }
    }

    fn generation(&mut self, id: &Id, content: &Value) -> i64 {
        let spec = &content["spec"];
        let edit = self
            .specs
            .entry(id.clone())
            .or_insert_with(|| (spec.clone(), 1));
        if edit.0 != *spec {
            *edit = (spec.clone(), edit.1 + 1);
        }
        edit.1
    }

    /// What the compiler reads.
    pub(super) fn objects(&self) -> Objects {
        let mut objects = Objects {
            scope: Scope::Files,
            ..Objects::default()
        };
        for (id, kept) in &self.objects {
            let key = id.key.clone();
            match &kept.object {
                Object::Provider(entry) => objects.providers.push(entry.clone()),
                Object::Route(entry) => objects.routes.push(entry.clone()),
                Object::Service(service) => {
                    objects.services.insert(key, service.clone());
                }
                Object::Secret(secret) => {
                    objects.secrets.insert(key, secret.clone());
                }
                Object::Grant(grant) => objects.grants.push(grant.clone()),
                Object::Slice(_) | Object::ConfigMap => {}
            }
        }
        objects
    }

    /// The EndpointSlices.
    pub(super) fn slices(&self) -> ByNamespace {
        let mut slices = ByNamespace::new();
        for (id, kept) in &self.objects {
            if let Object::Slice(slice) = &kept.object {
                let namespace = id.key.namespace.clone();
                slices.entry(namespace).or_default().push(slice.clone());
            }
        }
        slices
    }
}

const KEPT: &str = "what it held before is kept until it is corrected";
