// Any bytes as a model file of another tool: read, or refused with their place.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/error.hpp"
#include "traces/models/model_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const orrery::ModelFile file = orrery::parse_model_file(text, "fuzz");
    if (!(orrery::count_parameters(file.decoder).total() > 0)) std::abort();
  } catch (const orrery::Error& error) {
    if (error.kind() != orrery::ErrorKind::bad_input || !error.source_place()) std::abort();
  }
  return 0;
}
