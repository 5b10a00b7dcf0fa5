//! The scenarios that come along, compiled in, so that the command needs nothing beside it.

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        /// Name and text of each, in the order of their names.
        pub const ALL: &[(&str, &str)] = &[$(($name, include_str!(concat!("../../scenarios/", $name, ".toml")))),*];
    };
}

shipped![
    "bridge",
    "five-nodes",
    "flapping-uplink",
    "flood",
    "full-disk",
    "late-joiners",
    "old-backup",
    "one-way-link",
    "poisoned-community",
    "power-cuts",
    "satellite",
    "server-away",
    "sneakernet",
    "third-hostile",
    "thousand-nodes",
    "two-sites-overnight",
    "wrong-clocks",
];

/// The text of the one of a name.
pub fn text(name: &str) -> Option<&'static str> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn every_scenario_that_comes_along_can_be_read_and_says_what_it_shows() {
        for (name, text) in ALL {
            let scenario = Scenario::parse(name, text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(scenario.about.ends_with('.') && scenario.about.len() > 40, "{name}: {}", scenario.about);
            let again = Scenario::parse(name, &scenario.to_toml()).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(again, scenario, "{name}");
        }
        assert!(ALL.is_sorted() && ALL.len() >= 12);
        let mut files: Vec<String> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios"))
            .expect("the scenarios")
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok()?.strip_suffix(".toml").map(str::to_string))
            .collect();
        files.sort();
        assert_eq!(
            files,
            ALL.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>(),
            "all files are compiled in"
        );
    }
}
