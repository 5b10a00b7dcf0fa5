//! How a file names nodes: `"a"`, `"a/2"`, `"a/0-3"`, `"*"`.

use super::{ScenarioError, Site, table::Value};

/// The nodes that a text, or a list of texts, names: ascending, each once, at least one.
pub(super) fn read(value: &Value<'_>, sites: &[Site]) -> Result<Vec<usize>, ScenarioError> {
    let mut all = Vec::new();
    for (line, text) in value.texts()? {
        all.extend(named(text, sites).map_err(|message| ScenarioError::at(line, message))?);
    }
    all.sort_unstable();
    all.dedup();
    if all.is_empty() { Err(value.wrong("at least one node")) } else { Ok(all) }
}

/// Groups of nodes: a list whose items are texts or lists of texts. No node may be in two.
pub(super) fn read_groups(value: &Value<'_>, sites: &[Site]) -> Result<Vec<Vec<usize>>, ScenarioError> {
    let groups = value.list()?.iter().map(|item| read(item, sites)).collect::<Result<Vec<_>, _>>()?;
    if groups.len() < 2 {
        return Err(value.wrong("at least two groups, such as [\"a\", \"b\"] or [[\"a\", \"b/0\"], [\"b/1-4\"]]"));
    }
    let mut seen: Vec<usize> = groups.concat();
    seen.sort_unstable();
    match seen.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => {
            let name = write(&[twice[0]], sites);
            Err(ScenarioError::at(value.line(), format!("node {} is in two groups", name.join(""))))
        }
        None => Ok(groups),
    }
}

fn named(text: &str, sites: &[Site]) -> Result<Vec<usize>, String> {
    if text == "*" {
        return Ok((0..sites.iter().map(|site| site.nodes).sum()).collect());
    }
    let (name, part) = text.split_once('/').map_or((text, None), |(name, part)| (name, Some(part)));
    let Some(site) = sites.iter().position(|site| site.name == name) else {
        let known: Vec<&str> = sites.iter().map(|site| site.name.as_str()).collect();
        return Err(format!("there is no site \"{name}\"; the sites are {}", known.join(", ")));
    };
    let first: usize = sites.iter().take(site).map(|site| site.nodes).sum();
    let nodes = sites.get(site).map_or(0, |site| site.nodes);
    let Some(part) = part else { return Ok((first..first + nodes).collect()) };
    let (from, to) = part.split_once('-').unwrap_or((part, part));
    match (from.parse::<usize>(), to.parse::<usize>()) {
        (Ok(from), Ok(to)) if from <= to && to < nodes => Ok((first + from..=first + to).collect()),
        _ => Err(format!("\"{text}\" names no nodes: site {name} has nodes {name}/0 to {name}/{}", nodes - 1)),
    }
}

/// Texts that [`read`] reads as these nodes, which are ascending.
pub(super) fn write(nodes: &[usize], sites: &[Site]) -> Vec<String> {
    if nodes.len() == sites.iter().map(|site| site.nodes).sum::<usize>() && sites.len() > 1 {
        return vec!["*".into()];
    }
    let (mut texts, mut first) = (Vec::new(), 0);
    for site in sites {
        let own: Vec<usize> =
            nodes.iter().filter(|n| (first..first + site.nodes).contains(n)).map(|n| n - first).collect();
        first += site.nodes;
        if own.len() == site.nodes {
            texts.push(site.name.clone());
            continue;
        }
        for run in own.chunk_by(|a, b| a + 1 == *b) {
            texts.push(match run {
                [only] => format!("{}/{only}", site.name),
                [from, .., to] => format!("{}/{from}-{to}", site.name),
                [] => continue,
            });
        }
    }
    texts
}
