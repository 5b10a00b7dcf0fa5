//! Real tasks from files: WebArena intents, where tasks of one template are a family, and tau-bench results, where tasks whose
//! reference solution makes the same kinds of change are.

use std::collections::{BTreeMap, BTreeSet};

use folklore_store::run::{Step, shorten};
use serde_json::Value;

use super::families::Family;

/// Most bytes of a task that are kept.
const MAX_TASK_BYTES: usize = 1_000;
/// Tools of tau-bench that only look.
const LOOKS: [&str; 6] = ["get_", "list_", "find_", "search_", "calculate", "think"];

/// The families in a JSON array or in JSON Lines; none where nothing in it is a task.
pub(super) fn families(text: &str) -> Vec<Family> {
    let items: Vec<Value> = match serde_json::from_str(text) {
        Ok(Value::Array(items)) => items,
        _ => text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect(),
    };
    let mut by_name: BTreeMap<String, Gathered> = BTreeMap::new();
    for item in &items {
        let Some((name, domain, task, expected)) = intent(item).or_else(|| result(item)) else { continue };
        let family = by_name.entry(name).or_default();
        family.domain = domain;
        if expected.len() > family.expected.len() {
            family.expected = expected;
        }
        family.tasks.insert(shorten(&task, MAX_TASK_BYTES));
        family.seen += 1;
        family.failed += u64::from(item.get("reward").and_then(Value::as_f64).is_none_or(|reward| reward < 1.0));
    }
    by_name.into_iter().map(|(name, gathered)| gathered.family(name)).collect()
}

#[derive(Default)]
struct Gathered {
    domain: String,
    tasks: BTreeSet<String>,
    expected: Vec<String>,
    seen: u64,
    failed: u64,
}

impl Gathered {
    fn family(self, name: String) -> Family {
        let tasks: Vec<String> = self.tasks.into_iter().collect();
        let looked = format!("look_up {{\"about\":{}}}", Value::from(shorten(tasks.first().map_or("", |t| t), 100)));
        let step =
            |action: String, observation: &str| Step { think: String::new(), action, observation: observation.into() };
        let steps =
            vec![step(looked, "{\"found\":0}"), step(format!("finish {{\"as\":\"{name}\"}}"), "Error: not accepted")];
        // As often as the real runs failed, where there are some.
        let trap_ppm = (self.failed * 1_000_000).checked_div(self.seen).unwrap_or(1_000_000) as u32;
        Family { name, domain: self.domain, tasks, steps, expected: self.expected, trap_ppm }
    }
}

type Read = (String, String, String, Vec<String>);

/// WebArena: `{id, intent, site, template_id}`.
fn intent(item: &Value) -> Option<Read> {
    let intent = item.get("intent")?.as_str()?;
    let template = item.get("template_id").or_else(|| item.get("intent_template_id"))?;
    let site = item.get("site").and_then(Value::as_str).unwrap_or("web");
    let expected = format!("use_template {{\"template\":\"{template}\",\"site\":\"{site}\"}}");
    Some((format!("template-{template}"), site.into(), intent.into(), vec![expected]))
}

/// tau-bench: `{task_id, reward, info: {task: {instruction, actions: [{name, kwargs}]}}}`.
fn result(item: &Value) -> Option<Read> {
    let task = item.get("info")?.get("task")?;
    let instruction = task.get("instruction")?.as_str()?;
    let actions = task.get("actions")?.as_array()?;
    let call = |action: &Value| {
        let arguments = action.get("kwargs").or_else(|| action.get("arguments"))?;
        Some((action.get("name")?.as_str()?.to_owned(), arguments.clone()))
    };
    let changes: Vec<(String, Value)> =
        actions.iter().filter_map(call).filter(|(name, _)| !LOOKS.iter().any(|l| name.starts_with(l))).collect();
    let names: BTreeSet<&str> = changes.iter().map(|(name, _)| name.as_str()).collect();
    let name = if names.is_empty() { "no-change".into() } else { names.into_iter().collect::<Vec<_>>().join("+") };
    let expected = changes.iter().map(|(name, arguments)| format!("{name} {arguments}")).collect();
    Some((name, "service".into(), instruction.into(), expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intents_of_one_template_are_a_family_and_lines_that_are_no_tasks_are_passed_over() {
        let lines = r#"{"id":1,"intent":"count reviews with the word good","site":"shop","template_id":7}
not json
{"id":2,"intent":"how many reviews say bad","site":"shop","template_id":7}
{"id":3,"intent":"open the map","site":"map","template_id":8}"#;
        let families = families(lines);
        let sizes: Vec<(&str, usize, u32)> =
            families.iter().map(|f| (f.name.as_str(), f.tasks.len(), f.trap_ppm)).collect();
        assert_eq!(sizes, [("template-7", 2, 1_000_000), ("template-8", 1, 1_000_000)]);
        assert!(families.iter().all(|family| family.lesson(0).is_some()));
    }

    #[test]
    fn results_are_a_family_by_what_their_solution_changes_and_fail_as_often_as_they_did() {
        let results = r#"[
          {"task_id":0,"reward":0.0,"info":{"task":{"instruction":"cancel it","actions":[{"name":"get_order","kwargs":{}},{"name":"cancel_order","kwargs":{"order_id":"W1"}}]}}},
          {"task_id":1,"reward":1.0,"info":{"task":{"instruction":"cancel that","actions":[{"name":"cancel_order","kwargs":{"order_id":"W2"}}]}}}
        ]"#;
        let families = families(results);
        assert_eq!(families.len(), 1);
        assert_eq!((families[0].name.as_str(), families[0].trap_ppm), ("cancel_order", 500_000));
        assert!(families[0].lesson(1).is_some());
    }
}
