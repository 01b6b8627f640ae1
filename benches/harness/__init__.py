"""The speed harness: a lab, the contenders, the scenarios and the judge. Standard library only."""
