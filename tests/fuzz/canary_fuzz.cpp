// Not a test of ours: a bug on purpose that ./dev fuzz has to find.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (std::string_view(reinterpret_cast<const char*>(data), size).starts_with("bug")) std::abort();
  return 0;
}
