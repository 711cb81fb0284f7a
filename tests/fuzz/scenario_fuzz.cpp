// Any text is a scenario or a bad_input error with a place; nothing else.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "core/schema/yaml_loader.hpp"
#include "traces/scenario.pb.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  orrery::Scenario scenario;
  try {
    orrery::load_yaml({reinterpret_cast<const char*>(data), size}, "fuzz.yaml", scenario);
  } catch (const orrery::Error& error) {
    if (error.kind() != orrery::ErrorKind::bad_input || !error.place()) std::abort();
  }
  return 0;
}
