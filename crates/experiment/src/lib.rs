//! What is made of runs: demo, calibration, doctor.
