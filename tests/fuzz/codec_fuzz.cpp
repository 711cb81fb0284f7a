// Fuzzer: any bytes as a code are decoded, or refused as bad input. The first two bytes choose
// codec and count of values; decoded values are encoded again without an error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "core/error.hpp"
#include "live/codec/codec.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace orrery;
  if (size < 2) return 0;
  const CodecRule rule{.codec = static_cast<Codec>(data[0] % 7), .error_feedback = data[0] >= 128};
  const auto codec = live::make_codec(rule);
  std::vector<float> values(data[1]);
  const auto code = std::as_bytes(std::span(data + 2, size - 2));
  const std::size_t wanted = codec->encoded_size(values.size());
  try {
    // Half of the inputs are cut to the right size, so that the contents are reached.
    const bool cut = code.size() >= wanted && size % 2 == 0;
    codec->decode_values(cut ? code.first(wanted) : code, values);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_input) std::abort();
    return 0;
  }
  live::CodecState state;
  std::vector<std::byte> again(wanted);
  codec->encode_values(values, state, again);
  codec->decode_values(again, values);
  return 0;
}
