// Any text is a finite quantity of the dimension or nothing.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "core/units.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (int i = 0; i <= static_cast<int>(orrery::Dimension::money_rate); ++i) {
    const auto value = orrery::parse_quantity(text, static_cast<orrery::Dimension>(i));
    if (value && !std::isfinite(*value)) std::abort();
  }
  return 0;
}
