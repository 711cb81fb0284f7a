// orrery-sim: serves one simulated run to the process that started it.
#include "policies/run/worker.hpp"
#include "sim/worlds.hpp"

int main() { return orrery::serve_run("sim", orrery::simulated_world); }
