// Any text is a scenario or a bad_input error with a place; nothing else.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "policies/parameters.pb.h"
#include "topologies/builder.hpp"
#include "traces/scenario/fault_script.hpp"
#include "traces/scenario/scenario.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  orrery::PredictiveRebalanceParameters::descriptor();  // links the policies' parameters in
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const orrery::LoadedScenario loaded = orrery::parse_scenario(text, "fuzz.yaml", {});
    const orrery::Cluster cluster =
        orrery::build_cluster(loaded.scenario.cluster(), loaded.places, "cluster");
    const orrery::FaultScript faults(loaded.scenario, cluster);  // an accepted scenario can be read
    if (faults.begun_count({1 << 20, orrery::kNever}) > faults.size()) std::abort();
  } catch (const orrery::Error& error) {
    if (error.kind() != orrery::ErrorKind::bad_input || !error.source_place()) std::abort();
  }
  return 0;
}
