//! Which agents a job is for.

use std::str::FromStr;

use weir_model::{Refusal, nearest};

use super::Agent;
use crate::names::AgentName;

/// Names and labels of agents: `paris-1,site=lyon` or `all`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector(Vec<Term>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Term {
    All,
    Name(AgentName),
    Label(String, String),
}

const FIELD: &str = "on";
const ACCEPTED: &str = "names of agents and labels KEY=VALUE, separated by commas, or all";

impl FromStr for Selector {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Selector, Refusal> {
        let term = |term: &str| -> Option<Term> {
            match term.split_once('=') {
                _ if term == "all" => Some(Term::All),
                Some((key, value)) if !key.is_empty() => {
                    Some(Term::Label(key.into(), value.into()))
                }
                Some(_) => None,
                None => term.parse().ok().map(Term::Name),
            }
        };
        let terms: Option<Vec<Term>> = text.split(',').map(|part| term(part.trim())).collect();
        terms.map(Selector).ok_or_else(|| Refusal::of_field("usage", FIELD, text, ACCEPTED))
    }
}

impl Term {
    fn matches(&self, agent: &Agent) -> bool {
        match self {
            Term::All => true,
            Term::Name(name) => agent.name == *name,
            Term::Label(key, value) => agent.facts.labels.get(key) == Some(value),
        }
    }
}

impl Selector {
    /// Whether it names an agent.
    #[must_use]
    pub fn includes(&self, agent: &Agent) -> bool {
        self.0.iter().any(|term| term.matches(agent))
    }

    /// The agents that it names, each once, by name, whether they are connected or not.
    ///
    /// # Errors
    /// A name or a label that no agent has.
    pub fn members<'a>(&self, agents: &'a [Agent]) -> Result<Vec<&'a Agent>, Box<Refusal>> {
        let is_unknown = |term: &&Term| !agents.iter().any(|agent| term.matches(agent));
        if let Some(term) = self.0.iter().find(is_unknown) {
            return Err(unknown(term, agents));
        }
        let mut members: Vec<&Agent> = agents.iter().filter(|agent| self.includes(agent)).collect();
        members.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(members)
    }

    /// The agents that it names, each once, by name.
    ///
    /// # Errors
    /// A name or a label that no agent has, an agent that is gone, or one of another version than `version`.
    pub fn choose<'a>(
        &self,
        agents: &'a [Agent],
        version: &str,
    ) -> Result<Vec<&'a Agent>, Box<Refusal>> {
        let mut chosen = vec![];
        for term in &self.0 {
            let before = chosen.len();
            // Of a label or of all, those that are here.
            let is_named = matches!(term, Term::Name(_));
            let of_term = |agent: &&Agent| term.matches(agent) && (is_named || agent.is_here());
            chosen.extend(agents.iter().filter(of_term));
            if chosen.len() == before {
                return Err(unknown(term, agents));
            }
        }
        chosen.sort_by(|a: &&Agent, b: &&Agent| a.name.cmp(&b.name));
        chosen.dedup_by(|a, b| a.name == b.name);
        for agent in &chosen {
            let refused = |given: String, accepted: String| {
                Box::new(Refusal::of_field("agent", FIELD, given, accepted))
            };
            if !agent.is_here() {
                let seen = match agent.seen {
                    Some(_) if agent.has_stopped => format!("{} (stopped)", agent.name),
                    Some(seen) => format!("{} (last seen {} s ago)", agent.name, seen.as_secs()),
                    None => format!("{} (never seen)", agent.name),
                };
                return Err(refused(seen, "agents that are connected".into()));
            }
            if agent.facts.version != version {
                let given = format!("{} (version {})", agent.name, agent.facts.version);
                return Err(refused(given, format!("agents of version {version}")));
            }
        }
        Ok(chosen)
    }
}

fn unknown(term: &Term, agents: &[Agent]) -> Box<Refusal> {
    let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
    let labels: Vec<String> = agents
        .iter()
        .flat_map(|agent| &agent.facts.labels)
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let (given, nearest) = match term {
        Term::All => ("all".to_owned(), None),
        Term::Name(name) => (name.to_string(), nearest(name.as_str(), names.iter().copied())),
        Term::Label(key, value) => {
            let given = format!("{key}={value}");
            let near = nearest(&given, labels.iter().map(String::as_str));
            (given, near)
        }
    };
    let accepted = match names.is_empty() {
        true => "no agent has connected yet".to_owned(),
        false => format!("a name or label of weir fleet agents: {}", names.join(", ")),
    };
    let nearest = nearest.map(str::to_owned);
    Box::new(Refusal { nearest, ..Refusal::of_field("agent", FIELD, given, accepted) })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::document::AgentFacts;

    fn agent(name: &str, site: &str, seen: Option<u64>) -> Agent {
        let labels = [("site".to_owned(), site.to_owned())].into();
        Agent {
            name: name.parse().unwrap(),
            facts: AgentFacts { version: "1".into(), labels, ..AgentFacts::default() },
            seen: seen.map(Duration::from_secs),
            has_stopped: false,
        }
    }

    fn names(selector: &str, agents: &[Agent]) -> Result<Vec<String>, Box<Refusal>> {
        let selector: Selector = selector.parse().unwrap();
        let chosen = selector.choose(agents, "1")?;
        Ok(chosen.into_iter().map(|agent| agent.name.to_string()).collect())
    }

    #[test]
    fn names_and_labels_choose_agents_once() {
        let agents = [
            agent("a", "paris", Some(1)),
            agent("b", "paris", Some(2)),
            agent("c", "lyon", Some(3)),
            agent("d", "lyon", Some(500)),
        ];
        assert_eq!(names("all", &agents).unwrap(), ["a", "b", "c"]);
        assert_eq!(names("c, a,site=paris", &agents).unwrap(), ["a", "b", "c"]);
        assert_eq!(names("site=lyon", &agents).unwrap(), ["c"]);
        for (selector, nearest) in [("site=pari", Some("site=paris")), ("x=1", None), ("e", None)] {
            let refusal = names(selector, &agents).unwrap_err();
            assert_eq!((refusal.given.as_deref(), refusal.exit_code), (Some(selector), 2));
            if nearest.is_some() {
                assert_eq!(refusal.nearest.as_deref(), nearest);
            }
        }
        // Those that are gone are members.
        let members = |selector: &str| {
            let selector: Selector = selector.parse().unwrap();
            let members = selector.members(&agents).map_err(|refusal| refusal.given);
            members.map(|found| found.into_iter().map(|agent| agent.name.to_string()).collect())
        };
        let names_of = |names: &[&str]| Ok(names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(members("all"), names_of(&["a", "b", "c", "d"]));
        assert_eq!(members("site=lyon,d,a"), names_of(&["a", "c", "d"]));
        assert_eq!(members("a,e"), Err::<Vec<String>, _>(Some("e".to_owned())));
        // Gone, and of another version.
        assert_eq!(names("d", &agents).unwrap_err().field.as_deref(), Some("on"));
        let selector: Selector = "a".parse().unwrap();
        assert_eq!(selector.choose(&agents, "2").unwrap_err().code, "agent");
        assert!(names("all", &agents[3..]).is_err());
        for bad in ["", "a,,b", "=x", "a b", "-"] {
            assert_eq!(bad.parse::<Selector>().unwrap_err().field.as_deref(), Some("on"), "{bad}");
        }
    }
}
