//! Network-namespace labs: set up, run inside, tear down, heal.
