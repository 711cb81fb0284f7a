// Runs a scenario in a child process (an engine lives once per process) and brings the report
// back. For tests only.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "traces/report.pb.h"
#include "traces/scenario/scenario.hpp"

namespace orrery::testing {

/// Options of a run in a child process.
struct SimOptions {
  bool full_detail = false;
  std::string record = {}, timeline = {};
};

/// Returns the output of a child: a serialized message, or an error that is thrown here again.
std::string in_child(const std::function<std::string()>& body);

/// Numbers found in a child.
std::vector<double> numbers_in_child(const std::function<std::vector<double>()>& body);

Report simulate(const LoadedScenario& loaded, const SimOptions& options = {});
/// `file` below examples/.
LoadedScenario load_example(const std::string& file,
                            const std::vector<std::string>& overrides = {});
/// `file` below examples/; without a policy of its own if `policy` is given.
Report simulate_example(const std::string& file, const std::vector<std::string>& overrides,
                        const std::string& policy = {}, const SimOptions& options = {});

/// A job of `tensor` x `pipeline` x `data` H100s on 8-GPU nodes, four nodes a unit, with 2 GPUs'
/// worth of model. Fields beyond that come as overrides.
LoadedScenario small_scenario(int tensor, int pipeline, int data, const std::string& faults = {},
                              const std::vector<std::string>& overrides = {});

}  // namespace orrery::testing
