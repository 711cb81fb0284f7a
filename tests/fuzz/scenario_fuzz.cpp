// Any text is a scenario or a bad_input error with a place; nothing else.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "policies/parameters.pb.h"
#include "traces/scenario.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  orrery::PredictiveRebalanceParameters::descriptor();  // links the policies' parameters in
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    orrery::parse_scenario(text, "fuzz.yaml", {});
  } catch (const orrery::Error& error) {
    if (error.kind() != orrery::ErrorKind::bad_input || !error.place()) std::abort();
  }
  return 0;
}
